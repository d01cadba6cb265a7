"""Comparisons, minimum and maximum, signs: exact for every type."""

from __future__ import annotations

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive as P
from xlac_sdk.lowering.math.value import Value
from xlac_sdk.lowering.math.writer import Writer


def less_equal(m: Writer, a: Value, b: Value) -> Value:
    """`a <= b`; false when either is NaN."""
    if a.dtype.is_float:
        return (a < b) | a.eq(b)
    return ~(b < a)


def not_equal(m: Writer, a: Value, b: Value) -> Value:
    """`a != b`; true when either is NaN."""
    return ~a.eq(b)


def invert(m: Writer, a: Value) -> Value:
    """Bitwise not; for bool, logical not."""
    return a ^ (True if a.dtype is DType.BOOL else -1)


def negate(m: Writer, a: Value) -> Value:
    """`-a`: for floats the sign bit is flipped, also of zeros and NaN."""
    if a.dtype.is_float:
        return sign_flipped(a)
    return 0 - a


def absolute(m: Writer, a: Value) -> Value:
    """`|a|`; the smallest integer stays itself."""
    if a.dtype.is_float:
        return magnitude(a)
    return m.select(a < 0, 0 - a, a) if a.dtype.is_signed else a


def maximum(m: Writer, a: Value, b: Value) -> Value:
    """The larger; NaN if either is, and +0 over -0: equal floats have equal bits except for zeros'
    signs.
    """
    larger = m.select(a < b, b, a)
    if not a.dtype.is_float:
        return larger
    larger = m.select(a.eq(b), (a.bits & b.bits).bitcast(a.dtype), larger)
    return m.select(a.isnan | b.isnan, a + b, larger)


def minimum(m: Writer, a: Value, b: Value) -> Value:
    """The smaller; NaN if either is, and -0 over +0."""
    smaller = m.select(b < a, b, a)
    if not a.dtype.is_float:
        return smaller
    smaller = m.select(a.eq(b), (a.bits | b.bits).bitcast(a.dtype), smaller)
    return m.select(a.isnan | b.isnan, a + b, smaller)


def fused(m: Writer, a: Value, b: Value, c: Value) -> Value:
    """`a * b + c` with two roundings: without the instruction a single rounding would be too
    expensive.
    """
    return a * b + c


# ---- signs ---------------------------------------------------------------------------------------


def sign_bit(a: Value) -> Value:
    """The sign bit of a float, with all other bits 0."""
    return a.bits & (1 << (a.format.width - 1))


def magnitude(a: Value) -> Value:
    """The bits of a float without its sign."""
    if a.on.target.spells(P.ABS, a.dtype):
        return a.on.native(P.ABS, a)
    return (a.bits & ((1 << (a.format.width - 1)) - 1)).bitcast(a.dtype)


def sign_flipped(a: Value) -> Value:
    """A number with the sign bit flipped, also for zeros and NaN."""
    return (a.bits ^ (1 << (a.format.width - 1))).bitcast(a.dtype)


def with_sign(positive: Value, sign: Value) -> Value:
    """A number known to be positive, with the sign bit of another."""
    return (positive.bits | sign).bitcast(positive.dtype)
