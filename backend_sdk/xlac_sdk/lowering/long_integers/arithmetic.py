"""Arithmetic on two words of u32: sums, products, comparisons, bits, shifts."""

from __future__ import annotations

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Const
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.lowering.long_integers.words import I32, U32, LongInteger, P, is_zero
from xlac_sdk.lowering.math.value import Value
from xlac_sdk.lowering.math.writer import Writer


def add(m: Writer, a: LongInteger, b: LongInteger) -> LongInteger:
    """The sum, with the carry of the lower words."""
    low = a.low + b.low
    return LongInteger.of_words(low, lambda: a.high + b.high + (low < a.low).cast(U32))


def sub(m: Writer, a: LongInteger, b: LongInteger) -> LongInteger:
    """The difference, with the borrow of the lower words."""
    return LongInteger.of_words(a.low - b.low, lambda: a.high - b.high - (a.low < b.low).cast(U32))


def negate(m: Writer, a: LongInteger) -> LongInteger:
    """0 - a."""
    return sub(m, LongInteger.of_number(m, 0, a.lanes), a)


def multiply(m: Writer, a: LongInteger, b: LongInteger) -> LongInteger:
    """The product modulo 2^64."""

    def high() -> Value:
        total = upper_product(m, a.low, b.low)
        for low, word in ((a.low, b.high), (b.low, a.high)):
            total = total if is_zero(word) else total + low * word
        return total

    return LongInteger.of_words(a.low * b.low, high)


def upper_product(m: Writer, x: Value, y: Value) -> Value:
    """The upper word of the product of two words, by halves of 16 bits."""
    (x0, x1), (y0, y1) = ((v & 0xFFFF, v >> 16) for v in (x, y))
    middle = x1 * y0 + ((x0 * y0) >> 16)
    other = x0 * y1 + (middle & 0xFFFF)
    return x1 * y1 + (middle >> 16) + (other >> 16)


# ---- comparisons -----------------------------------------------------------------------------


def negative(a: LongInteger) -> Value:
    """Whether it is negative, as a signed number."""
    return a.high.cast(I32) < 0


def equal(m: Writer, a: LongInteger, b: LongInteger) -> Value:
    """Whether both words are equal."""
    return a.low.eq(b.low) & a.high.eq(b.high)


def less(m: Writer, a: LongInteger, b: LongInteger, dtype: DType) -> Value:
    """Whether a < b, as numbers of the type."""
    upper = a.high, b.high
    if dtype is DType.I64:
        upper = a.high.cast(I32), b.high.cast(I32)
    elif is_zero(a.high) and is_zero(b.high):
        return a.low < b.low
    return (upper[0] < upper[1]) | (a.high.eq(b.high) & (a.low < b.low))


def compare(m: Writer, primitive: Primitive, a: LongInteger, b: LongInteger, dtype: DType) -> Value:
    """A comparison of two numbers of a type."""
    match primitive:
        case P.EQ:
            return equal(m, a, b)
        case P.NE:
            return ~equal(m, a, b)
        case P.LT:
            return less(m, a, b, dtype)
    assert primitive is P.LE
    return ~less(m, b, a, dtype)


def select(m: Writer, condition: Value, a: LongInteger, b: LongInteger) -> LongInteger:
    """a where the condition holds, else b."""
    return LongInteger.of_words(
        m.select(condition, a.low, b.low), lambda: m.select(condition, a.high, b.high)
    )


# ---- bits ------------------------------------------------------------------------------------


def bitwise(m: Writer, primitive: Primitive, *given: LongInteger) -> LongInteger:
    """and, or, xor, not: word by word."""
    return LongInteger.of_words(
        m.apply(primitive, *(one.low for one in given)),
        lambda: m.apply(primitive, *(one.high for one in given)),
    )


def count_ones(m: Writer, a: LongInteger) -> LongInteger:
    """The number of 1 bits."""
    count = m.apply(P.POPCNT, a.low) + m.apply(P.POPCNT, a.high)
    return LongInteger.of_int(m, count.cast(I32).expr, (0, 64))


def leading_zeros(m: Writer, a: LongInteger) -> LongInteger:
    """The number of bits above the highest 1; 64 for 0."""
    below = m.apply(P.CLZ, a.low) + 32
    count = m.select(a.high.eq(0), below, m.apply(P.CLZ, a.high))
    return LongInteger.of_int(m, count.cast(I32).expr, (0, 64))


def shift(
    m: Writer, primitive: Primitive, a: LongInteger, by: LongInteger, dtype: DType
) -> LongInteger:
    """A shift to the left or right. By 64 and more it gives 0, or the sign where a signed number is
    shifted to the right.
    """
    arithmetic = primitive is P.SHR and dtype is DType.I64
    known = by.low.expr, by.high.expr
    if isinstance(known[0], Const) and isinstance(known[1], Const):
        fixed = int(known[0].value) if known[1].value == 0 else 64
        return shift_by(m, primitive, a, min(fixed, 64), arithmetic)
    fill = _sign(a) if arithmetic else a.low.like(0)
    outside = by.high.ne(0) | (by.low.like(63) < by.low)
    far, count = (by.low & 32).ne(0), by.low & 31
    back = by.low.like(31) - count
    if primitive is P.SHL:
        near = a.low << count
        low = m.select(far, 0, near)
        high = m.select(far, near, (a.high << count) | ((a.low >> 1) >> back))
    else:
        near = (a.high.cast(I32) >> count.cast(I32)).cast(U32) if arithmetic else a.high >> count
        high = m.select(far, fill, near)
        low = m.select(far, near, (a.low >> count) | ((a.high << 1) << back))
    return LongInteger.of_words(m.select(outside, fill, low), m.select(outside, fill, high))


def shift_by(
    m: Writer, primitive: Primitive, a: LongInteger, by: int, arithmetic: bool
) -> LongInteger:
    """A shift by a known number, from 0 to 64."""
    zero = Value(m, Const(0, U32, a.lanes))
    if by == 0:
        return a
    if primitive is P.SHL:
        if by >= 32:
            return LongInteger.of_words(zero, (lambda: a.low << (by - 32)) if by < 64 else zero)
        return LongInteger.of_words(a.low << by, lambda: (a.high << by) | (a.low >> (32 - by)))
    fill = _sign(a) if arithmetic else zero

    def above(count: int) -> Value:
        if not arithmetic:
            return a.high >> count
        return (a.high.cast(I32) >> count).cast(U32)

    if by >= 64:
        return LongInteger.of_words(fill, fill)
    if by > 32:
        return LongInteger.of_words(above(by - 32), fill)
    if by == 32:
        return LongInteger.of_words(a.high, fill)
    return LongInteger.of_words((a.low >> by) | (a.high << (32 - by)), lambda: above(by))


def _sign(a: LongInteger) -> Value:
    """A word of sign bits."""
    return (a.high.cast(I32) >> 31).cast(U32)
