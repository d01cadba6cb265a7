"""Element-wise arithmetic, comparisons, logic and bits (ONNX operator sets 1 to 28)."""

from __future__ import annotations

from functools import reduce

import numpy as np

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType

_UNARY = {
    "Abs": "abs", "Neg": "neg", "Sign": "sign", "Floor": "floor", "Ceil": "ceil", "Round": "round",
    "Sqrt": "sqrt", "Exp": "exp", "Log": "log", "Reciprocal": "reciprocal", "Erf": "erf",
    "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan",
    "Sinh": "sinh", "Cosh": "cosh", "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh",
    "IsNaN": "isnan", "Not": "logical_not", "BitwiseNot": "not", "Sigmoid": "sigmoid",
    "Tanh": "tanh",
}  # fmt: skip
_BINARY = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "And": "logical_and",
    "Or": "logical_or", "Xor": "logical_xor", "Equal": "equal", "Less": "less",
    "Greater": "greater", "LessOrEqual": "less_equal", "GreaterOrEqual": "greater_equal",
    "BitwiseAnd": "and", "BitwiseOr": "or", "BitwiseXor": "xor",
}  # fmt: skip
_MANY = {"Max": "max", "Min": "min", "Sum": "add"}


def _unary(name: str, mnemonic: str) -> None:
    @operator(name, elementwise=True)
    def unary(call: OperatorCall) -> Node:
        return build.apply1(mnemonic, call[0])


def _binary(name: str, mnemonic: str) -> None:
    @operator(name, elementwise=True)
    def binary(call: OperatorCall) -> Node:
        return build.apply1(mnemonic, call[0], second(call))


def _many(name: str, mnemonic: str) -> None:
    @operator(name, elementwise=True)
    def many(call: OperatorCall) -> Node:
        return reduce(lambda x, y: build.apply1(mnemonic, x, y), call)


for _name, _mnemonic in _UNARY.items():
    _unary(_name, _mnemonic)
for _name, _mnemonic in _BINARY.items():
    _binary(_name, _mnemonic)
for _name, _mnemonic in _MANY.items():
    _many(_name, _mnemonic)


def second(call: OperatorCall) -> Node:
    """The second operand. Before operator set 7, `axis` aligns it with the first if `broadcast` is
    set.
    """
    x, y = call[0], call[1]
    if call.version >= 7 or not call.attr("broadcast", 0) or "axis" not in call.attributes:
        return y
    axis = call.attr("axis") % max(1, x.type.rank)
    return build.reshape(y, [*y.shape, *[1] * (x.type.rank - axis - y.type.rank)])


@operator("Mean", elementwise=True)
def mean(call: OperatorCall) -> Node:
    """The mean of tensors, computed in f32 or wider."""
    total = reduce(build.add, (build.compute(x) for x in call))
    return build.cast(
        build.div(total, build.constant(len(call), total.type.dtype)), call[0].type.dtype
    )


@operator("Pow", elementwise=True)
def power(call: OperatorCall) -> Node:
    """The result has the type of the base (operator set 12 lets the types differ)."""
    x, y = call[0], second(call)
    if x.type.dtype.is_float or y.type.dtype.is_integer:
        wide = (
            x.type.dtype
            if x.type.dtype is y.type.dtype
            else build.promote(x.type.dtype, y.type.dtype)
        )
    else:
        wide = DType.F64
    return build.cast(build.apply1("pow", build.cast(x, wide), build.cast(y, wide)), x.type.dtype)


@operator("Mod", since=10, elementwise=True)
def modulus(call: OperatorCall) -> Node:
    """The remainder with the divisor's sign, or the dividend's with `fmod`."""
    return build.apply1("rem" if call.attr("fmod", 0) else "mod", call[0], call[1])


@operator("IsInf", since=10, elementwise=True)
def is_infinite(call: OperatorCall) -> Node:
    """Whether an element is infinite, for the signs selected by the attributes."""
    x = call[0]
    tests = [
        build.compare(x, "eq", limit)
        for name, limit in (("detect_positive", np.inf), ("detect_negative", -np.inf))
        if call.attr(name, 1)
    ]
    return (
        reduce(lambda a, b: build.apply1("or", a, b), tests)
        if tests
        else build.full(False, x.shape, DType.BOOL)
    )


@operator("BitShift", since=11, elementwise=True)
def bit_shift(call: OperatorCall) -> Node:
    """Shifted left or right, as `direction` says."""
    direction = call.attr("direction")
    if direction not in ("LEFT", "RIGHT"):
        call.fail(f"direction '{direction}' is neither LEFT nor RIGHT")
    return build.apply1("shl" if direction == "LEFT" else "shr", call[0], call[1])


@operator("Where", since=9, elementwise=True)
def where(call: OperatorCall) -> Node:
    """Elements of the second input where the condition holds, of the third elsewhere."""
    return build.select(call[0], call[1], call[2])


@operator("Clip", since=6, elementwise=True)
def clip_attributes(call: OperatorCall) -> Node:
    """Clip up to operator set 10: its limits are attributes."""
    x = call[0]
    low, high = call.attr("min", None), call.attr("max", None)
    x = x if low is None else build.maximum(x, build.constant(low, x.type.dtype))
    return x if high is None else build.minimum(x, build.constant(high, x.type.dtype))


@operator("Clip", since=11, elementwise=True)
def clip(call: OperatorCall) -> Node:
    """Clip since operator set 11: its limits are inputs; if min > max the result is max."""
    x, low, high = call[0], call.get(1), call.get(2)
    x = x if low is None else build.maximum(x, low)
    return x if high is None else build.minimum(x, high)


@operator("BitCast", since=26)
def bit_cast(call: OperatorCall) -> Node:
    """The same bits under another element type of the same width."""
    dtype = call.dtype("to")
    if dtype.bits != call[0].type.dtype.bits:
        call.fail(f"{call[0].type.dtype} and {dtype} differ in width")
    x = call[0]
    if dtype is DType.BOOL:
        return build.compare(x, "ne", 0)
    return (
        build.cast(x, dtype)
        if x.type.dtype is DType.BOOL
        else build.apply1("bitcast", x, dtype=dtype)
    )
