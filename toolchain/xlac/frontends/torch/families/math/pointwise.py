"""Arithmetic, element by element. Operands broadcast and promote as in PyTorch."""

from __future__ import annotations

import math

from xlac.frontends.torch.table import AtenCall, Scalar, aten
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType

UNARY = {
    "abs": "abs", "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh",
    "atan": "atan", "atanh": "atanh", "ceil": "ceil", "cos": "cos", "cosh": "cosh", "erf": "erf",
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "floor": "floor", "log": "log",
    "log1p": "log1p", "log2": "log2", "neg": "neg", "reciprocal": "reciprocal", "round": "round",
    "rsqrt": "rsqrt", "sigmoid": "sigmoid", "sign": "sign", "sgn": "sign", "sin": "sin",
    "sinh": "sinh", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh", "trunc": "trunc",
}  # fmt: skip
WHOLE = {"ceil", "floor", "round", "trunc"}  # rounding operations leave integers unchanged
BINARY = {
    "maximum": "max", "minimum": "min", "atan2": "atan2", "bitwise_and": "and", "bitwise_or": "or",
    "bitwise_xor": "xor", "remainder": "mod", "fmod": "rem", "floor_divide": "floor_divide",
}  # fmt: skip


def operands(call: AtenCall, *values: Scalar) -> tuple[Node, ...]:
    """Operands cast to the element type of the result and broadcast to its shape."""
    return tuple(call.filled(v) for v in values)


def computed(call: AtenCall, *values: Scalar) -> tuple[Node, ...]:
    """`operands` in the compute type: f32 for 16-bit floats, so that the result is rounded once."""
    return tuple(build.compute(x) for x in operands(call, *values))


def rounded(call: AtenCall, x: Node) -> Node:
    """A value in the compute type, cast to the result's element type."""
    return build.cast(x, call.dtype)


def _unary(name: str, mnemonic: str) -> None:
    @aten(name)
    def builder(call: AtenCall, x: Node) -> Node:
        if name in WHOLE and not x.type.dtype.is_float:
            return x
        if name in ("sign", "sgn") and x.type.dtype is DType.BOOL:
            return x
        return build.apply1(mnemonic, call.node(x, call.dtype))


def _binary(name: str, mnemonic: str) -> None:
    forms = {
        "bitwise_and": ".Tensor",
        "bitwise_or": ".Tensor",
        "bitwise_xor": ".Tensor",
        "remainder": ".Tensor",
        "fmod": ".Tensor",
    }
    more = (
        [f"{name}.Scalar", f"{name}.Scalar_Tensor"]
        if name in ("bitwise_and", "bitwise_or", "bitwise_xor", "remainder")
        else []
    )
    more += (
        ["fmod.Scalar"]
        if name == "fmod"
        else ["floor_divide.Scalar"]
        if name == "floor_divide"
        else []
    )

    @aten(name + forms.get(name, ""), *more)
    def builder(call: AtenCall, x: Scalar, y: Scalar) -> Node:
        return build.apply1(_of_bools(call, mnemonic), *operands(call, x, y))


def _of_bools(call: AtenCall, mnemonic: str) -> str:
    """For bools, max and min are `or` and `and`."""
    return (
        {"max": "or", "min": "and"}.get(mnemonic, mnemonic)
        if call.dtype is DType.BOOL
        else mnemonic
    )


for _name, _mnemonic in UNARY.items():
    _unary(_name, _mnemonic)
for _name, _mnemonic in BINARY.items():
    _binary(_name, _mnemonic)


@aten("add.Tensor", "add.Scalar")
def add(call: AtenCall, x: Scalar, y: Scalar, alpha: Scalar = 1) -> Node:
    """x + alpha y, rounded once to the result's dtype; of booleans the logical or."""
    a, b = computed(call, x, y)
    if call.dtype is DType.BOOL:
        return build.apply1("or", a, b)
    return rounded(call, build.add(a, _times(call, b, alpha)))


@aten("sub.Tensor", "sub.Scalar")
def sub(call: AtenCall, x: Scalar, y: Scalar, alpha: Scalar = 1) -> Node:
    """x - alpha y, rounded once to the result's dtype."""
    a, b = computed(call, x, y)
    return rounded(call, build.sub(a, _times(call, b, alpha)))


@aten("rsub.Tensor", "rsub.Scalar")
def rsub(call: AtenCall, x: Scalar, y: Scalar, alpha: Scalar = 1) -> Node:
    """y - alpha x."""
    return sub(call, y, x, alpha)


def _times(call: AtenCall, x: Node, factor: Scalar) -> Node:
    return (
        x
        if isinstance(factor, int | float) and factor == 1
        else build.mul(x, call.node(factor, x.type.dtype))
    )


@aten("mul.Tensor", "mul.Scalar")
def mul(call: AtenCall, x: Scalar, y: Scalar) -> Node:
    """x y; of booleans the logical and."""
    return build.apply1("and" if call.dtype is DType.BOOL else "mul", *operands(call, x, y))


@aten("div.Tensor", "div.Scalar", "true_divide.Tensor")
def div(call: AtenCall, x: Scalar, y: Scalar) -> Node:
    """x / y; integers are divided as floats."""
    return build.div(*operands(call, x, y))


@aten("div.Tensor_mode", "div.Scalar_mode")
def div_mode(call: AtenCall, x: Scalar, y: Scalar, rounding_mode: str | None = None) -> Node:
    """x / y, rounded down with "floor", towards zero with "trunc"."""
    a, b = computed(call, x, y)
    if rounding_mode == "floor":
        return rounded(call, build.apply1("floor_divide", a, b))
    quotient = build.div(a, b)
    return rounded(
        call, build.apply1("trunc", quotient) if rounding_mode and call.dtype.is_float else quotient
    )


@aten("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def power(call: AtenCall, x: Scalar, y: Scalar) -> Node:
    """x to the power y; some constant exponents become products and roots."""
    if isinstance(y, int | float) and call.dtype.is_float:
        (base,) = computed(call, x)
        simple = _simple_power(base, float(y))
        if simple is not None:
            return rounded(call, simple)
    return build.apply1("pow", *operands(call, x, y))


def _simple_power(x: Node, exponent: float) -> Node | None:
    """The powers that PyTorch does not compute by `pow`."""
    square = build.mul(x, x)
    match exponent:
        case 0.5:
            return build.sqrt(x)
        case 1.0:
            return x
        case 2.0:
            return square
        case 3.0:
            return build.mul(square, x)
        case -0.5:
            return build.apply1("rsqrt", x)
        case -1.0:
            return build.apply1("reciprocal", x)
        case -2.0:
            return build.apply1("reciprocal", square)
    return None


@aten("fmax")
def fmax(call: AtenCall, x: Node, y: Node) -> Node:
    """The larger; the other if one is NaN."""
    return _unless_nan(call, "max", x, y)


@aten("fmin")
def fmin(call: AtenCall, x: Node, y: Node) -> Node:
    """The smaller; the other if one is NaN."""
    return _unless_nan(call, "min", x, y)


def _unless_nan(call: AtenCall, mnemonic: str, x: Node, y: Node) -> Node:
    a, b = operands(call, x, y)
    result = build.apply1(_of_bools(call, mnemonic), a, b)
    if not call.dtype.is_float:
        return result
    return build.select(
        build.apply1("isnan", a), b, build.select(build.apply1("isnan", b), a, result)
    )


@aten("bitwise_not")
def bitwise_not(call: AtenCall, x: Node) -> Node:
    """Every bit flipped; of booleans the logical not."""
    return build.apply1("not", x)


@aten(
    "bitwise_left_shift.Tensor",
    "bitwise_left_shift.Tensor_Scalar",
    "__lshift__.Scalar",
    "__lshift__.Tensor",
)
def shift_left(call: AtenCall, x: Scalar, y: Scalar) -> Node:
    """x shifted left by y bits."""
    return build.apply1("shl", *operands(call, x, y))


@aten(
    "bitwise_right_shift.Tensor",
    "bitwise_right_shift.Tensor_Scalar",
    "__rshift__.Scalar",
    "__rshift__.Tensor",
)
def shift_right(call: AtenCall, x: Scalar, y: Scalar) -> Node:
    """x shifted right by y bits, with copies of the sign where x is signed."""
    return build.apply1("shr", *operands(call, x, y))


@aten("clamp", "clamp.Tensor")
def clamp(call: AtenCall, x: Node, min: Scalar | None = None, max: Scalar | None = None) -> Node:
    """min(max(x, `min`), `max`): NaN is kept, and if the limits cross the result is `max`."""
    (clamped,) = operands(call, x)
    if min is not None:
        clamped = build.apply1(_of_bools(call, "max"), clamped, call.filled(min))
    return (
        clamped if max is None else build.apply1(_of_bools(call, "min"), clamped, call.filled(max))
    )


@aten("clamp_min", "clamp_min.Tensor")
def clamp_min(call: AtenCall, x: Node, min: Scalar) -> Node:
    """x, no less than `min`."""
    return clamp(call, x, min)


@aten("clamp_max", "clamp_max.Tensor")
def clamp_max(call: AtenCall, x: Node, max: Scalar) -> Node:
    """x, no more than `max`."""
    return clamp(call, x, None, max)


@aten("log10")
def log10(call: AtenCall, x: Node) -> Node:
    """log(x) / log(10)."""
    (a,) = computed(call, x)
    return rounded(call, build.div(build.log(a), math.log(10)))


@aten("signbit")
def signbit(call: AtenCall, x: Node) -> Node:
    """Whether the sign bit is set: true of -0.0, and of NaN with a sign."""
    dtype = x.type.dtype
    if not dtype.is_signed:
        return build.full(False, x.shape, DType.BOOL)
    bits = build.apply1("bitcast", x, dtype=DType(f"i{dtype.bits}")) if dtype.is_float else x
    return build.compare(bits, "lt", 0)


@aten("copysign.Tensor", "copysign.Scalar")
def copysign(call: AtenCall, x: Node, y: Scalar) -> Node:
    """The magnitude of x with the sign of y."""
    a, b = operands(call, x, y)
    size = build.apply1("abs", a)
    return build.select(signbit(call, b), build.apply1("neg", size), size)


@aten("lerp.Tensor", "lerp.Scalar")
def lerp(call: AtenCall, x: Node, y: Node, weight: Scalar) -> Node:
    """x + weight (y - x), or y - (1 - weight) (y - x) for weights of at least 1/2, as
    in PyTorch.
    """
    a, b, w = computed(call, x, y, weight)
    near = build.add(a, build.mul(w, build.sub(b, a)))
    far = build.sub(b, build.mul(build.sub(b, a), build.sub(1.0, w)))
    return rounded(call, build.select(build.compare(build.apply1("abs", w), "lt", 0.5), near, far))


@aten("addcmul")
def addcmul(call: AtenCall, x: Node, y: Node, z: Node, value: Scalar = 1) -> Node:
    """x + value y z, rounded once to the result's dtype."""
    a, b, c = computed(call, x, y, z)
    return rounded(call, build.add(a, build.mul(_times(call, b, value), c)))


@aten("addcdiv")
def addcdiv(call: AtenCall, x: Node, y: Node, z: Node, value: Scalar = 1) -> Node:
    """x + value (y / z), rounded once to the result's dtype."""
    a, b, c = computed(call, x, y, z)
    return rounded(call, build.add(a, build.mul(build.div(b, c), call.node(value, a.type.dtype))))
