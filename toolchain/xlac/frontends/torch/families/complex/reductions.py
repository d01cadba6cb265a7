"""Products, variances and logic of complex numbers."""

from __future__ import annotations

from typing import Any

from xlac.frontends.torch.complex_tensors import ComplexTensor, Number, as_complex, aten_complex
from xlac.frontends.torch.families.complex.arithmetic import spread
from xlac.frontends.torch.families.complex.parts import not_zero
from xlac.frontends.torch.families.math.reductions import axes_of, spread_of
from xlac.frontends.torch.table import BUILDERS, AtenCall
from xlac.ir.graph import Node
from xlac.ir.op import normal_axis
from xlac.ops import build
from xlac.ops.complex import arithmetic, exponential, logarithm
from xlac.ops.complex.linalg.numbers import cut, each, multiplied


def _product(call: AtenCall, x: Number, axis: int) -> ComplexTensor:
    found = multiplied(as_complex(x, call.dtype).parts, axis)
    a, b = each(lambda part: build.reshape(part, call.shape), found)
    return ComplexTensor(a, b)


@aten_complex("prod")
def prod_all(call: AtenCall, x: Number, dtype: Any = None) -> ComplexTensor:
    """The product of all elements."""
    parts = as_complex(x, call.dtype).parts
    a, b = each(lambda part: build.reshape(part, (-1,)), parts)
    return _product(call, ComplexTensor(a, b), 0)


@aten_complex("prod.dim_int")
def prod_dim(
    call: AtenCall, x: Number, dim: int, keepdim: bool = False, dtype: Any = None
) -> ComplexTensor:
    """The product over one axis."""
    wide = as_complex(x, call.dtype)
    rank = wide.real.type.rank
    return _product(call, wide, normal_axis(dim, rank)) if rank else wide


@aten_complex("cumprod")
def cumprod(call: AtenCall, x: Number, dim: int, dtype: Any = None) -> ComplexTensor:
    """The running product along an axis: of one number, of two, of four and so on."""
    found = as_complex(x, call.dtype).parts
    if not found[0].shape:
        return ComplexTensor(*found)
    axis = normal_axis(dim, found[0].type.rank)
    size, step = found[0].shape[axis], 1
    assert isinstance(size, int)
    while step < size:
        ends = ((0, step), (step, size), (0, size - step))
        first, rest, before = (cut(found, axis, *end) for end in ends)
        more = arithmetic.mul((rest[0], rest[1]), (before[0], before[1]))
        a, b = (build.concat(list(pair), axis) for pair in zip(first, more, strict=True))
        found, step = (a, b), 2 * step
    return ComplexTensor(*found)


@aten_complex("logsumexp")
def logsumexp(call: AtenCall, x: Number, dim: Any, keepdim: bool = False) -> ComplexTensor:
    """log(sum(exp(x))), shifted by the largest real part so that it does not overflow."""
    a, b = as_complex(x, call.dtype).parts
    axes = axes_of(a, dim)
    if not axes:
        return ComplexTensor(a, b)
    most = build.reduce(a, "max", axes, keepdims=True)
    most = build.select(build.apply1("isfinite", most), most, 0.0)
    powers = exponential.exp((build.sub(a, build.broadcast_to(most, a.shape)), b))
    one, two = (build.reduce(part, "add", axes, keepdims=True) for part in powers)
    one, two = logarithm.log((one, two))
    one, two = (build.reshape(part, call.shape) for part in (build.add(one, most), two))
    return ComplexTensor(one, two)


@aten_complex("logaddexp")
def logaddexp(call: AtenCall, x: Number, y: Number) -> ComplexTensor:
    """log(exp(x) + exp(y)): that of the larger real part, and the logarithm of 1 plus a quotient
    of at most 1.
    """
    first, second = (spread(call, as_complex(v, call.dtype).parts).parts for v in (x, y))
    less = build.compare(first[0], "lt", second[0])
    low, high = (
        (build.select(less, a[0], b[0]), build.select(less, a[1], b[1]))
        for a, b in ((first, second), (second, first))
    )
    quotient = exponential.exp(arithmetic.sub(low, high))
    return ComplexTensor(*arithmetic.add(high, logarithm.log1p_(quotient)))


@aten_complex("var.correction")
def var(call: AtenCall, x: ComplexTensor, *args: Any, **named: Any) -> Node:
    """The variance: that of the real parts and that of the imaginary ones, added."""
    builder = BUILDERS["aten.var.correction"]
    return build.add(*(builder(call, part, *args, **named) for part in x.parts))


@aten_complex("var_mean.correction")
def var_mean(
    call: AtenCall,
    x: ComplexTensor,
    dim: Any = None,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[Node, ComplexTensor]:
    """The variance, as in `var`, and the mean."""
    less = 1 if correction is None else correction
    (one, a), (two, b) = (spread_of(call, part, dim, less, keepdim) for part in x.parts)
    return build.add(one, two), ComplexTensor(a, b)


def _logic(name: str) -> None:
    @aten_complex(name)
    def builder(call: AtenCall, *numbers: Number) -> Any:
        """Logic of whether numbers are not 0."""
        return BUILDERS[f"aten.{name}.default"](call, *map(not_zero, numbers))


for _name in ("logical_and", "logical_or", "logical_xor", "logical_not"):
    _logic(_name)
