"""64-bit integers from and to other types, exact or rounded to nearest even."""

from __future__ import annotations

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Apply, Expr, Shuffle
from xlac_sdk.kernel_ir.ranges import type_range
from xlac_sdk.lowering.long_integers import arithmetic
from xlac_sdk.lowering.long_integers.words import I32, U32, LongInteger, P
from xlac_sdk.lowering.math.value import Value
from xlac_sdk.lowering.math.writer import Writer

F32 = DType.F32
INFINITY = 0x7F800000  # the bits of an infinite f32
BIAS, MANTISSA = 127, 23


def retyped(m: Writer, a: LongInteger, dtype: DType) -> LongInteger:
    """The same bits as i64 or as u64: a narrow one stays narrow if it is not negative."""
    if dtype is DType.I64 or a.bounds is None or a.bounds[0] >= 0:
        # an u64 that is narrow is below 2^31, and words have no sign
        return a
    return LongInteger.of_words(a.low, lambda: a.high)


def from_integer(m: Writer, x: Expr, dtype: DType) -> LongInteger:
    """A bool or an integer of at most 32 bits as i64 or u64."""
    if x.dtype is U32:
        low = m.value(x)
        return LongInteger.of_words(low, low.like(0))
    narrow = x if x.dtype is I32 else Apply(P.CAST, (x,), I32, x.lanes)
    return retyped(m, LongInteger.of_int(m, narrow, type_range(x.dtype)), dtype)


def from_float(m: Writer, x: Value, dtype: DType) -> LongInteger:
    """An f32 truncated and saturated; NaN is 0. The significand is shifted as its exponent says."""
    bits = x.bitcast(U32)
    size, minus = bits & 0x7FFFFFFF, (bits >> 31).ne(0)
    exponent = (size >> MANTISSA).cast(I32) - (BIAS + MANTISSA)
    whole = (size & ((1 << MANTISSA) - 1)) | (1 << MANTISSA)
    # without the fraction, of which 31 bits and more are all of it
    down = m.select(exponent < -31, exponent.like(31), 0 - exponent)
    small = whole >> m.select(down < 0, down.like(0), down).cast(U32)
    up = LongInteger.of_int(m, m.select(exponent < 0, exponent.like(0), exponent).expr, (0, 255))
    large = arithmetic.shift(m, P.SHL, LongInteger.of_words(whole, whole.like(0)), up, DType.U64)
    fraction = exponent < 0
    number = LongInteger.of_words(
        m.select(fraction, small, large.low), m.select(fraction, 0, large.high)
    )
    nan = size.like(INFINITY) < size
    signed = dtype is DType.I64
    beyond = size.like((BIAS + (63 if signed else 64)) << MANTISSA) <= size
    zero = LongInteger.of_number(m, 0, x.lanes)
    if signed:
        number = arithmetic.select(m, minus, arithmetic.negate(m, number), number)
        most, least = ((1 << 63) - 1, -(1 << 63))
        extreme = arithmetic.select(
            m,
            minus,
            LongInteger.of_number(m, least, x.lanes),
            LongInteger.of_number(m, most, x.lanes),
        )
    else:
        extreme = LongInteger.of_number(m, (1 << 64) - 1, x.lanes)
    number = arithmetic.select(m, beyond, extreme, number)
    nothing = nan if signed else nan | minus
    return arithmetic.select(m, nothing, zero, number)


def to_float(m: Writer, a: LongInteger, dtype: DType) -> Value:
    """A number of the type as f32: the 32 bits below its highest 1, the last of which says whether
    there are more, are rounded by the machine's conversion; then the exponent is raised.
    """
    signed = dtype is DType.I64
    minus = arithmetic.negative(a) if signed else None
    size = a
    if minus is not None:
        size = arithmetic.select(m, minus, arithmetic.negate(m, a), a)
    zeros = m.apply(P.CLZ, size.high) & 31
    upper = (size.high << zeros) | ((size.low >> 1) >> (zeros.like(31) - zeros))
    more = (size.low << zeros).ne(0).cast(U32)
    short = size.high.eq(0)
    rounded = m.select(short, size.low, upper | more).cast(F32).bitcast(U32)
    raised = rounded + ((zeros.like(32) - zeros) << MANTISSA)
    bits = m.select(short, rounded, raised)
    if minus is not None:
        bits = bits | (minus.cast(U32) << 31)
    return bits.bitcast(F32)


def cast(m: Writer, a: LongInteger, source: DType, dtype: DType) -> Expr:
    """A number of type `source` as bool, as a float, or as an integer of at most 32 bits."""
    if dtype is DType.BOOL:
        return (a.low | a.high).ne(0).expr
    if a.narrow is not None:
        return a.narrow if dtype is I32 else Apply(P.CAST, (a.narrow,), dtype, a.lanes)
    if dtype.is_float:
        rounded = to_float(m, a, source)
        return rounded.expr if dtype is F32 else rounded.cast(dtype).expr
    return a.low.expr if dtype is U32 else a.low.cast(dtype).expr


# ---- bits ------------------------------------------------------------------------------------


def from_bits(m: Writer, x: Value, lanes: int) -> LongInteger:
    """Lanes of another type joined to 64-bit ones, the lowest bits first."""
    words = x
    if x.dtype is not U32:
        words = m.let(Apply(P.BITCAST, (x.expr,), U32, 2 * lanes))
    low, high = (Shuffle((words.expr,), tuple(range(k, 2 * lanes, 2))) for k in (0, 1))
    return LongInteger.of_words(m.value(low), lambda: m.value(high))


def to_bits(m: Writer, a: LongInteger, dtype: DType, lanes: int) -> Expr:
    """All bits as lanes of another type."""
    picks = tuple(k // 2 + (k % 2) * a.lanes for k in range(2 * a.lanes))
    words = Shuffle((a.low.expr, a.high.expr), picks)
    if dtype is U32:
        return words
    return Apply(P.BITCAST, (m.value(words).expr,), dtype, lanes)
