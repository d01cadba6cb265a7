"""Exports scalar operations in element types that runtimes support, with our semantics."""

from __future__ import annotations

import math

import numpy as np

from xlac.exporters.onnx.comparisons import ORDERED, WRAPPING, below, chosen, within
from xlac.exporters.onnx.writer import OnnxWriter, rule
from xlac.exporters.unsaid import Unsaid
from xlac.ir.graph import Node
from xlac.ops.tensor.leaf import Const
from xlac_sdk.dtypes import DType

"""Types for + - *, by element type: the low bits of results are the same, and every runtime has the
type.
"""


UNARY = {
    "floor": "Floor", "round": "Round", "exp": "Exp", "log": "Log", "sin": "Sin", "cos": "Cos",
    "sqrt": "Sqrt", "erf": "Erf", "ceil": "Ceil", "tanh": "Tanh", "sigmoid": "Sigmoid",
    "neg": "Neg", "abs": "Abs", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan",
    "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh",
    "relu": "Relu", "reciprocal": "Reciprocal",
}  # fmt: skip


FLOAT_ONLY = {"neg", "abs", "relu"}  # expanded for integers, whose minimum wraps


@rule(*UNARY)
def unary(w: OnnxWriter, node: Node, x: str) -> str:
    """The operator in the table `UNARY`, in a supported dtype; integers that would wrap are
    rejected.
    """
    dtype = node.type.dtype
    if node.op.mnemonic in FLOAT_ONLY and not dtype.is_float:
        raise Unsaid("integers wrap")
    (x,), back = within(w, dtype, WRAPPING, x)
    return back(w.op(UNARY[node.op.mnemonic], x))


@rule("add", "sub", "mul")
def wrapping(w: OnnxWriter, node: Node, x: str, y: str) -> str:
    """Add, Sub and Mul; integers wrap around."""
    (x, y), back = within(w, node.type.dtype, WRAPPING, x, y)
    return back(w.op({"add": "Add", "sub": "Sub", "mul": "Mul"}[node.op.mnemonic], x, y))


@rule("div")
def divide(w: OnnxWriter, node: Node, x: str, y: str) -> str:
    """Div; for integers with results that ONNX leaves undefined: x / 0 is -1 (all ones), and the
    minimum by -1 is itself.
    """
    dtype = node.type.dtype
    (x, y), back = within(w, dtype, ORDERED, x, y)
    if dtype.is_float or divides(node.inputs[1]):
        return back(w.op("Div", x, y))
    kind = ORDERED.get(dtype, dtype)
    zero, safe, least = guarded(w, y, kind, dtype)
    quotient = w.op("Div", x, safe)
    if least:
        quotient = w.op("Where", least, w.op("Sub", w.constant(0, kind), x), quotient)
    ones = -1 if kind.is_signed else np.iinfo(kind.numpy).max
    return back(w.op("Where", zero, w.constant(ones, kind), quotient))


@rule("rem")
def remainder(w: OnnxWriter, node: Node, x: str, y: str) -> str:
    """Mod with `fmod`; for integers x % 0 is x, which ONNX leaves undefined."""
    dtype = node.type.dtype
    (x, y), back = within(w, dtype, ORDERED, x, y)
    if dtype.is_float or divides(node.inputs[1]):
        return back(w.op("Mod", x, y, fmod=1))
    kind = ORDERED.get(dtype, dtype)
    zero, safe, _ = guarded(w, y, kind, dtype)
    return back(w.op("Where", zero, x, w.op("Mod", x, safe, fmod=1)))


def divides(y: Node) -> bool:
    """Whether a divisor is constant and neither 0 nor -1."""
    from xlac.ops.tensor.view import Broadcast

    while isinstance(y.op, Broadcast):
        y = y.inputs[0]
    return isinstance(y.op, Const) and not np.isin(y.op.value, (0, -1)).any()


def guarded(w: OnnxWriter, y: str, kind: DType, dtype: DType) -> tuple[str, str, str]:
    """Where a divisor is 0; the divisor with 1 there and where it is -1; and where it is -1, if
    possible.
    """
    zero, one = w.op("Equal", y, w.constant(0, kind)), w.constant(1, kind)
    if not dtype.is_signed:
        return zero, w.op("Where", zero, one, y), ""
    least = w.op("Equal", y, w.constant(-1, kind))
    return zero, w.op("Where", w.op("Or", zero, least), one, y), least


@rule("pow")
def power(w: OnnxWriter, node: Node, x: str, y: str) -> str:
    """Pow; of integers by repeated squaring."""
    if not node.type.dtype.is_float:
        return whole_power(w, node.type.dtype, x, y)
    (x, y), back = within(w, node.type.dtype, WRAPPING, x, y)
    return back(w.op("Pow", x, y))


def whole_power(w: OnnxWriter, dtype: DType, x: str, y: str) -> str:
    """x to the power y by squaring, wrapping; a negative power gives the truncated reciprocal, 0
    for 0.
    """
    zero, one = w.constant(0, DType.I64), w.constant(1, DType.I64)
    base, left = w.cast(x, DType.I64), w.cast(y, DType.I64)
    power = one
    for _ in range(dtype.bits):
        odd = w.op("Equal", w.op("BitwiseAnd", left, one), one)
        power = w.op("Mul", power, w.op("Where", odd, base, one))
        base = w.op("Mul", base, base)
        left = w.cast(
            w.op("BitShift", w.cast(left, DType.U64), w.constant(1, DType.U64), direction="RIGHT"),
            DType.I64,
        )
    if dtype.is_signed:
        base, left = w.cast(x, DType.I64), w.cast(y, DType.I64)
        minus = w.constant(-1)
        even = w.op("Equal", w.op("BitwiseAnd", left, one), zero)
        inverse = w.op("Where", w.op("Equal", base, minus), w.op("Where", even, one, minus), zero)
        inverse = w.op("Where", w.op("Equal", base, one), one, inverse)
        power = w.op("Where", w.op("Less", left, zero), inverse, power)
    return w.cast(power, dtype) if dtype is not DType.I64 else power


@rule("max", "min")
def extreme(w: OnnxWriter, node: Node, x: str, y: str) -> str:
    """Max and Min; of 64-bit integers Less and Where."""
    dtype, larger = node.type.dtype, node.op.mnemonic == "max"
    (x, y), back = within(w, dtype, ORDERED, x, y)
    if ORDERED.get(dtype, dtype) is DType.I64:
        return back(w.most(x, y) if larger else w.least(x, y))
    if dtype is DType.U64:
        return w.op("Where", below(w, x, y), y if larger else x, x if larger else y)
    return back(w.op("Max" if larger else "Min", x, y))


@rule("expm1")
def expm1(w: OnnxWriter, node: Node, x: str) -> str:
    """tanh(x / 2) (exp(x) + 1), accurate near 0."""
    kind = WRAPPING.get(node.type.dtype, node.type.dtype)
    (x,), back = within(w, node.type.dtype, WRAPPING, x)
    half, one = w.constant(0.5, kind), w.constant(1.0, kind)
    return back(w.op("Mul", w.op("Tanh", w.op("Mul", x, half)), w.op("Add", w.op("Exp", x), one)))


@rule("log1p")
def log1p(w: OnnxWriter, node: Node, x: str) -> str:
    """2 atanh(x / (2 + x)) near 0, for accuracy, and log(1 + x) elsewhere."""
    kind = WRAPPING.get(node.type.dtype, node.type.dtype)
    (x,), back = within(w, node.type.dtype, WRAPPING, x)
    one, two = w.constant(1.0, kind), w.constant(2.0, kind)
    near = w.op("Less", w.op("Abs", x), w.constant(0.5, kind))
    small = w.op("Where", near, x, w.constant(0.0, kind))
    inner = w.op("Mul", two, w.op("Atanh", w.op("Div", small, w.op("Add", two, small))))
    return back(w.op("Where", near, inner, w.op("Log", w.op("Add", one, x))))


@rule("atan2")
def atan2(w: OnnxWriter, node: Node, y: str, x: str) -> str:
    """The angle of the smaller coordinate over the larger, mapped to the octant of the point."""
    kind = WRAPPING.get(node.type.dtype, node.type.dtype)
    (y, x), back = within(w, node.type.dtype, WRAPPING, y, x)
    zero, one = w.constant(0.0, kind), w.constant(1.0, kind)
    rise, run = w.op("Abs", y), w.op("Abs", x)
    low, high = w.op("Min", rise, run), w.op("Max", rise, run)
    equal = w.op("Equal", rise, run)  # also of infinities and zeros
    ratio = w.op(
        "Where", equal, w.op("Where", w.op("Equal", high, zero), zero, one), w.op("Div", low, high)
    )
    angle = w.op("Atan", ratio)
    angle = w.op(
        "Where",
        w.op("Greater", rise, run),
        w.op("Sub", w.constant(math.pi / 2, kind), angle),
        angle,
    )
    angle = w.op(
        "Where", negative(w, x, kind), w.op("Sub", w.constant(math.pi, kind), angle), angle
    )
    angle = w.op("Where", negative(w, y, kind), w.op("Neg", angle), angle)
    return back(
        w.op("Where", w.op("Or", w.op("IsNaN", y), w.op("IsNaN", x)), w.op("Add", x, y), angle)
    )


def negative(w: OnnxWriter, x: str, kind: DType) -> str:
    """Where the sign bit is set: -0 has 1 / x below 0."""
    zero = w.constant(0.0, kind)
    return w.op(
        "Or", w.op("Less", x, zero), w.op("Less", w.op("Div", w.constant(1.0, kind), x), zero)
    )


@rule("and", "or", "xor")
def bits(w: OnnxWriter, node: Node, x: str, y: str) -> str:
    """And, Or and Xor of booleans, Bitwise… of integers."""
    name = {"and": "And", "or": "Or", "xor": "Xor"}[node.op.mnemonic]
    return w.op(name if node.type.dtype is DType.BOOL else f"Bitwise{name}", x, y)


@rule("not")
def inverse(w: OnnxWriter, node: Node, x: str) -> str:
    """Not of booleans, BitwiseNot of integers."""
    return w.op("Not" if node.type.dtype is DType.BOOL else "BitwiseNot", x)


@rule("shl", "shr")
def shift(w: OnnxWriter, node: Node, x: str, n: str) -> str:
    """Shifts in 64 unsigned bits, which hold every result; the count is clamped to the width."""
    dtype = node.type.dtype
    unsigned, width = DType(f"u{dtype.bits}"), dtype.bits
    wide = DType.U64
    count = w.cast(n, unsigned) if dtype.is_signed else n
    count = w.cast(count, wide)
    over = w.op("BitShift", count, w.constant(width.bit_length() - 1, wide), direction="RIGHT")
    far = w.op("Not", w.op("Equal", w.cast(over, DType.I64), w.constant(0)))
    last = w.constant(width - 1, wide)
    count = w.op("Where", far, last, count)
    if node.op.mnemonic == "shl":
        shifted = w.op("BitShift", w.cast(w.cast(x, unsigned), wide), count, direction="LEFT")
        return chosen(w, far, w.constant(0, dtype), w.cast(w.cast(shifted, unsigned), dtype), dtype)
    if not dtype.is_signed:
        shifted = w.cast(w.op("BitShift", w.cast(x, wide), count, direction="RIGHT"), dtype)
        return chosen(w, far, w.constant(0, dtype), shifted, dtype)
    # negative numbers are inverted before and after the shift
    below = w.op("Less", w.cast(x, DType.I64), w.constant(0))
    plain = chosen(w, below, w.op("BitwiseNot", x), x, dtype)
    shifted = w.cast(
        w.op("BitShift", w.cast(w.cast(plain, unsigned), wide), count, direction="RIGHT"), dtype
    )
    return chosen(w, below, w.op("BitwiseNot", shifted), shifted, dtype)
