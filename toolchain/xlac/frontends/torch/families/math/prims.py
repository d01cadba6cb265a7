"""PyTorch's primitives (`prims`) that its decompositions leave: scalar functions of operands of one
type.
"""

from __future__ import annotations

from collections.abc import Sequence

# imported first, as some of its operations are registered again below
from xlac.frontends.torch.families.math import logic, special
from xlac.frontends.torch.families.math.pointwise import operands
from xlac.frontends.torch.families.math.reductions import extreme, reduced
from xlac.frontends.torch.table import BUILDERS, AtenCall, Scalar, aten
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops import build

assert logic and special

SAME = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp exp2 expm1 floor log log1p log2 "
    "log10 neg reciprocal round rsqrt sin sinh"
    " sqrt tan tanh trunc sign signbit isfinite bitwise_not digamma lgamma atan2 fmax fmin maximum "
    "minimum erfc hypot nextafter"
).split()
OVERLOADED = (
    "add sub mul bitwise_and bitwise_or bitwise_xor eq ne lt le gt ge pow remainder fmod".split()
)
RENAMED = {
    "erf_inv": "erfinv",
    "shift_left": "bitwise_left_shift.Tensor",
    "shift_right_arithmetic": "bitwise_right_shift.Tensor",
}

for _name in SAME:
    aten(f"prims.{_name}.default")(BUILDERS[f"aten.{_name}.default"])
for _name in OVERLOADED:
    _form = "Tensor_Tensor" if _name == "pow" else "Tensor"
    aten(f"prims.{_name}.default")(BUILDERS[f"aten.{_name}.{_form}"])
for _name, _theirs in RENAMED.items():
    aten(f"prims.{_name}.default")(
        BUILDERS[f"aten.{_theirs}" + ("" if "." in _theirs else ".default")]
    )


@aten("prims.div.default")
def div(call: AtenCall, x: Scalar, y: Scalar) -> Node:
    """Division; for integers it truncates."""
    return build.div(*operands(call, x, y))


@aten("prims.where.default")
def where(call: AtenCall, condition: Node, x: Scalar, y: Scalar) -> Node:
    """Elements of x where the condition is true, of y elsewhere."""
    return build.select(condition, *operands(call, x, y))


@aten("prims.fma.default")
def fma(call: AtenCall, x: Scalar, y: Scalar, z: Scalar) -> Node:
    """x y + z, with two roundings as in PyTorch's own."""
    a, b, c = operands(call, x, y, z)
    return build.add(build.mul(a, b), c)


@aten("prims.sum.default")
def total(call: AtenCall, x: Node, dims: Sequence[int] | None, **_: object) -> Node:
    """The sum over `dims`; with no dims x itself, unlike `aten.sum`."""
    return reduced(build.cast(x, call.dtype), "add", dims) if dims else build.cast(x, call.dtype)


@aten("prims.prod.default")
def product(call: AtenCall, x: Node, dims: Sequence[int] | None, **_: object) -> Node:
    """The product over `dims`; with no dims x itself."""
    return reduced(build.cast(x, call.dtype), "mul", dims) if dims else build.cast(x, call.dtype)


@aten("prims.amax.default")
def amax(call: AtenCall, x: Node, dims: Sequence[int], **_: object) -> Node:
    """The largest over `dims`; NaN where any is."""
    return extreme(x, "max", dims)


@aten("prims.amin.default")
def amin(call: AtenCall, x: Node, dims: Sequence[int], **_: object) -> Node:
    """The smallest over `dims`; NaN where any is."""
    return extreme(x, "min", dims)


@aten("prims.broadcast_in_dim.default")
def broadcast_in_dim(call: AtenCall, x: Node, shape: Sequence[Dim], axes: Sequence[int]) -> Node:
    """x with its axis `n` as axis `axes[n]` of the result, as in StableHLO."""
    return build.spread(x, call.shape, axes)
