"""Bit counts, and guards for integer arithmetic that machines leave undefined."""

from __future__ import annotations

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.build import bounds
from xlac_sdk.kernel_ir.kernel import Const
from xlac_sdk.kernel_ir.primitives import Primitive as P
from xlac_sdk.lowering.math.value import Value
from xlac_sdk.lowering.math.writer import Writer

MASKS = (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F)
UNSIGNED = {DType.I8: DType.U8, DType.I16: DType.U16, DType.I32: DType.U32, DType.I64: DType.U64}


def count_ones(m: Writer, x: Value) -> Value:
    """The number of 1 bits: sums of adjacent fields of doubling width."""
    bits, kind = x.dtype.bits, x.dtype
    x = x.bitcast(UNSIGNED.get(kind, kind))
    x = x - ((x >> 1) & MASKS[0])
    x = (x & MASKS[1]) + ((x >> 2) & MASKS[1])
    x = (x + (x >> 4)) & MASKS[2]
    width = 8
    while width < bits:
        x = x + (x >> width)
        width *= 2
    return (x & (2 * bits - 1)).bitcast(kind)


def leading_zeros(m: Writer, x: Value) -> Value:
    """The number of bits above the highest 1; the width for 0."""
    kind = x.dtype
    x = x.bitcast(UNSIGNED.get(kind, kind))
    by = 1
    while by < kind.bits:
        x = x | (x >> by)
        by *= 2
    return m.apply(P.POPCNT, ~x).bitcast(kind)


def dot4(m: Writer, x: Value, y: Value, total: Value) -> Value:
    """The four-byte dot product. Where the target only has the form for bytes of x of the other
    signedness, x is offset by 128 and the resulting difference is subtracted; else computed byte by
    byte.
    """
    other = DType.I32 if x.dtype is DType.U32 else DType.U32
    if m.target.spells(P.DOT4, other):
        high = 0x80808080 if other is DType.U32 else 0x80808080 - (1 << 32)
        moved = x.bitcast(other) ^ high
        more = m.native(P.DOT4, moved.like(high), y, y.like(0))
        return m.native(P.DOT4, moved, y, total) - more
    signed, bits = x.dtype is DType.I32, (x.bitcast(DType.I32), x.bitcast(DType.U32))
    for place in (24, 16, 8, 0):
        left = _signed_byte(bits[0], place) if signed else ((bits[1] >> place) & 255)
        total = total + left.bitcast(DType.I32) * _signed_byte(y, place)
    return total


def dot2(m: Writer, x: Value, y: Value, total: Value) -> Value:
    """The dot product of two i16."""
    return total + (x >> 16) * (y >> 16) + ((x << 16) >> 16) * ((y << 16) >> 16)


def lookup(m: Writer, *operands: Value) -> Value:
    """An entry of a table, chosen bit by bit of the index."""
    *entries, index = operands
    for bit in range(len(entries).bit_length() - 1):
        odd = ((index >> bit) & 1).eq(1)
        pairs = zip(entries[::2], entries[1::2], strict=True)
        entries = [m.select(odd, second, first) for first, second in pairs]
    return entries[0]


def _signed_byte(x: Value, place: int) -> Value:
    """The byte of an i32 that begins at bit `place`, sign-extended."""
    return (x << (24 - place)) >> 24


# ---- guards ----------------------------------------------------------------------------------


def divide(m: Writer, x: Value, y: Value) -> Value:
    """x / 0 is -1 (all bits set), the smallest integer / -1 itself, computed as a division by 1."""
    safe = _divisor(m, x, y)
    quotient = m.native(P.DIV, x, safe)
    return quotient if safe is y else m.select(y.eq(0), quotient.like(-1), quotient)


def remainder(m: Writer, x: Value, y: Value) -> Value:
    """x rem 0 is x; the smallest integer rem -1 is 0, computed as a remainder by 1."""
    safe = _divisor(m, x, y)
    rest = m.native(P.REM, x, safe)
    return rest if safe is y else m.select(y.eq(0), x, rest)


def _divisor(m: Writer, x: Value, y: Value) -> Value:
    """A divisor on which no machine traps."""
    if isinstance(y.expr, Const) and y.expr.value not in (0, -1):
        return y
    bad = y.eq(0)
    if x.dtype.is_signed:
        bad = bad | (x.eq(-(1 << (x.dtype.bits - 1))) & y.eq(-1))
    return m.select(bad, y.like(1), y)


def shift(m: Writer, x: Value, count: Value, primitive: P) -> Value:
    """Shifts by the width or more give 0, or the sign for `shr` of a signed integer."""
    bits = x.dtype.bits
    low, high = bounds(count.expr) if count.dtype.is_integer else (None, None)
    if low is not None and high is not None and low >= 0 and high < bits:
        return m.native(primitive, x, count)
    kind = UNSIGNED.get(count.dtype, count.dtype)
    outside = ~(count.bitcast(kind) < bits)
    if primitive is P.SHR and x.dtype.is_signed:
        return m.native(P.SHR, x, m.select(outside, count.like(bits - 1), count))
    return m.select(
        outside, x.like(0), m.native(primitive, x, m.select(outside, count.like(0), count))
    )


def from_float(m: Writer, x: Value, dtype: DType) -> Value:
    """Truncates and saturates; NaN is 0. Values out of range are never passed to the machine's
    conversion.
    """
    top = 1 << (dtype.bits - (1 if dtype.is_signed else 0))
    bottom = -top if dtype.is_signed else 0
    whole = m.apply(P.TRUNC, x)
    inside = (whole < float(top)) & (whole.like(float(bottom)) <= whole)
    kept = m.native(P.CAST, m.select(inside, whole, 0.0), dtype=dtype)
    extreme = m.select(x < 0.0, kept.like(bottom), kept.like(top - 1))
    return m.select(inside | x.isnan, kept, extreme)
