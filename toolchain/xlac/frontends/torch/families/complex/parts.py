"""Parts of complex numbers, comparisons, creation and conversion."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from xlac.frontends.torch.complex_tensors import (
    ComplexTensor,
    Number,
    apart,
    as_complex,
    aten_complex,
    together,
)
from xlac.frontends.torch.families.complex.arithmetic import spread
from xlac.frontends.torch.table import BUILDERS, AtenCall
from xlac.ir.dims import Shape
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.complex import arithmetic, logarithm
from xlac.ops.complex.parts import both, either, hypot
from xlac_sdk.dtypes import DType


@aten_complex("_conj", "_conj_physical", "conj_physical")
def conj(call: AtenCall, x: Number) -> ComplexTensor:
    """The conjugate."""
    a, b = as_complex(x, call.dtype).parts
    return ComplexTensor(a, build.apply1("neg", b))


@aten_complex("resolve_conj", "resolve_neg", "_neg_view")
def resolved(call: AtenCall, x: ComplexTensor) -> ComplexTensor:
    """The number itself: how PyTorch stores it has no meaning here."""
    return x


@aten_complex("real")
def real(call: AtenCall, x: ComplexTensor) -> Node:
    """The real part."""
    return x.real


@aten_complex("imag")
def imag(call: AtenCall, x: ComplexTensor) -> Node:
    """The imaginary part."""
    return x.imaginary


@aten_complex("view_as_real", "view_as_real_copy")
def view_as_real(call: AtenCall, x: ComplexTensor) -> Node:
    """Real numbers with a last axis of 2."""
    return together(x)


@aten_complex("view_as_complex", "view_as_complex_copy")
def view_as_complex(call: AtenCall, x: Node) -> ComplexTensor:
    """Complex numbers from a last axis of 2."""
    return apart(x)


@aten_complex("complex")
def complex_(call: AtenCall, x: Node, y: Node) -> ComplexTensor:
    """The number with these parts."""
    return spread(call, (x, y))


@aten_complex("polar")
def polar(call: AtenCall, size: Node, angle: Node) -> ComplexTensor:
    """The number of this absolute value and angle."""
    parts = (build.apply1(name, angle) for name in ("cos", "sin"))
    a, b = (build.mul(size, part) for part in parts)
    return spread(call, (a, b))


@aten_complex("abs")
def absolute(call: AtenCall, x: ComplexTensor) -> Node:
    """|x|, without intermediate overflow."""
    return hypot(*x.parts)


@aten_complex("angle")
def angle(call: AtenCall, x: ComplexTensor) -> Node:
    """The angle, in [-π, π]."""
    return logarithm.angle(x.parts)


@aten_complex("sgn")
def sgn(call: AtenCall, x: ComplexTensor) -> ComplexTensor:
    """x / |x|, and 0 at 0."""
    return ComplexTensor(*arithmetic.sign(x.parts))


@aten_complex("linalg_vector_norm")
def vector_norm(call: AtenCall, x: ComplexTensor, *args: Any, **named: Any) -> Any:
    """The norm of absolute values."""
    return BUILDERS["aten.linalg_vector_norm.default"](call, hypot(*x.parts), *args, **named)


@aten_complex("eq.Tensor", "eq.Scalar")
def eq(call: AtenCall, x: Number, y: Number) -> Node:
    """Whether both parts are equal."""
    return _compared("eq", x, y)


@aten_complex("ne.Tensor", "ne.Scalar")
def ne(call: AtenCall, x: Number, y: Number) -> Node:
    """Whether either part differs."""
    return _compared("ne", x, y)


def _of_either(name: str, join: Callable[[Node, Node], Node]) -> None:
    @aten_complex(name)
    def builder(call: AtenCall, x: ComplexTensor) -> Node:
        """A property of a number that one part, or both, must have."""
        a, b = (build.apply1(name, part) for part in x.parts)
        return join(a, b)


for _name, _join in (("isnan", either), ("isinf", either), ("isfinite", both)):
    _of_either(_name, _join)


def _logical(name: str) -> None:
    @aten_complex(name)
    def builder(call: AtenCall, x: ComplexTensor, *args: Any, **named: Any) -> Node:
        """any or all of the numbers that are not 0."""
        key = f"aten.{name}" if "." in name else f"aten.{name}.default"
        node: Node = BUILDERS[key](call, not_zero(x), *args, **named)
        return node


for _name in ("any", "any.dim", "any.dims", "all", "all.dim", "all.dims"):
    _logical(_name)


def not_zero(x: Number) -> Node:
    """Whether a number is not 0."""
    return _compared("ne", x, 0.0)


def _compared(direction: str, x: Number, y: Number) -> Node:
    wide = max((_dtype(v) for v in (x, y)), key=lambda dtype: dtype.bits)
    (a, b), (c, d) = (as_complex(v, wide).parts for v in (x, y))
    join = both if direction == "eq" else either
    return join(build.compare(a, direction, c), build.compare(b, direction, d))


def _dtype(value: Number) -> DType:
    held = value.real.type.dtype if isinstance(value, ComplexTensor) else None
    if isinstance(value, Node) and value.type.dtype.is_float:
        held = value.type.dtype
    return held or DType.F32


# ---- creation and conversion


@aten_complex("_to_copy", "prims.convert_element_type.default")
def converted(call: AtenCall, x: Number, *_: Any, **__: Any) -> Any:
    """Conversions to, from and among complex numbers; the imaginary part of one that becomes real
    is dropped, as in PyTorch.
    """
    if not call.complex:
        return build.cast(as_complex(x, _dtype(x)).real, call.dtype)
    return as_complex(x, call.dtype)


@aten_complex("full", "full_like", "new_full", "fill.Scalar", "fill.Tensor")
def full(call: AtenCall, like: Any, *values: Any, **_: Any) -> ComplexTensor:
    """One number in all places: the last positional argument."""
    return spread(call, as_complex(values[-1], call.dtype).parts)


@aten_complex("scalar_tensor")
def scalar_tensor(call: AtenCall, value: Number, **_: Any) -> ComplexTensor:
    """A number as a tensor of rank 0."""
    return as_complex(value, call.dtype)


@aten_complex("ones", "ones_like", "new_ones")
def ones(call: AtenCall, *_: Any, **__: Any) -> ComplexTensor:
    """Ones."""
    return spread(call, as_complex(1.0, call.dtype).parts)


@aten_complex("eye")
def eye(call: AtenCall, n: Any, **_: Any) -> ComplexTensor:
    """A square identity matrix."""
    return as_complex(BUILDERS["aten.eye.default"](call, n), call.dtype)


@aten_complex("eye.m")
def eye_m(call: AtenCall, n: Any, m: Any, **_: Any) -> ComplexTensor:
    """Ones on the diagonal."""
    return as_complex(BUILDERS["aten.eye.m"](call, n, m), call.dtype)


@aten_complex("masked_fill.Scalar")
def masked_fill(call: AtenCall, x: ComplexTensor, mask: Node, value: Number) -> ComplexTensor:
    """A number where the mask holds."""
    filled, kept = (spread(call, as_complex(v, call.dtype).parts).parts for v in (value, x))
    wide = build.broadcast_to(mask, call.shape)
    a, b = (build.select(wide, new, old) for new, old in zip(filled, kept, strict=True))
    return ComplexTensor(a, b)


@aten_complex("constant_pad_nd")
def constant_pad_nd(call: AtenCall, x: ComplexTensor, pad: Any, value: complex = 0) -> Any:
    """Padding with a number."""
    builder, number = BUILDERS["aten.constant_pad_nd.default"], complex(value)
    parts = zip(x.parts, (number.real, number.imag), strict=True)
    a, b = (builder(call, part, pad, fill) for part, fill in parts)
    return ComplexTensor(a, b)


# ---- random numbers


def _drawn(call: AtenCall, draw: Callable[[Shape, DType], Node], scale: float) -> ComplexTensor:
    """Random numbers, both parts of which are of one distribution."""
    return apart(build.mul(draw((*call.shape, 2), call.dtype), scale))


@aten_complex("rand", "rand_like")
def rand(call: AtenCall, *_: Any, **__: Any) -> ComplexTensor:
    """Both parts uniform in [0, 1), from xlac's generator."""
    return _drawn(call, call.random.uniform, 1.0)


@aten_complex("uniform")
def uniform(
    call: AtenCall, x: Number, low: float = 0.0, high: float = 1.0, generator: Any = None
) -> ComplexTensor:
    """Both parts uniform in [low, high), from xlac's generator."""
    found = _drawn(call, call.random.uniform, float(high) - float(low))
    return found.each(lambda part: build.add(part, float(low)))


@aten_complex("randn", "randn_like")
def randn(call: AtenCall, *_: Any, **__: Any) -> ComplexTensor:
    """Normally distributed numbers of variance 1: of each part 1/2."""
    return _drawn(call, call.random.normal, math.sqrt(0.5))


@aten_complex("normal_functional")
def normal(
    call: AtenCall, x: Number, mean: float = 0.0, std: float = 1.0, generator: Any = None
) -> ComplexTensor:
    """Normally distributed numbers of this real mean; the variance is shared by both parts."""
    found = _drawn(call, call.random.normal, float(std) * math.sqrt(0.5))
    return ComplexTensor(build.add(found.real, float(mean)), found.imaginary)
