"""Division of two words of u32 by two: one bit of the quotient in each of 64 turns."""

from __future__ import annotations

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Const
from xlac_sdk.lowering.long_integers import arithmetic
from xlac_sdk.lowering.long_integers.words import I32, U32, LongInteger, P, is_zero
from xlac_sdk.lowering.math.value import Value
from xlac_sdk.lowering.math.writer import Writer

ALL = 0xFFFFFFFF


def divide(
    m: Writer, a: LongInteger, b: LongInteger, dtype: DType
) -> tuple[LongInteger, LongInteger]:
    """Quotient and remainder of numbers of a type. The quotient by 0 has all bits set, and the
    remainder is the dividend; that of the smallest i64 by -1 is the dividend, and the remainder 0.
    """
    by = _power_of_two(b)
    if by is not None:
        return _by_power(m, a, by, dtype)
    if dtype is DType.U64:
        return _unsigned(m, a, b)
    minus = arithmetic.negative(a), arithmetic.negative(b)
    sizes = (
        arithmetic.select(m, sign, arithmetic.negate(m, value), value)
        for sign, value in zip(minus, (a, b), strict=True)
    )
    quotient, rest = _unsigned(m, *sizes)
    nothing = (b.low | b.high).eq(0)  # the quotient has all bits set already
    turned = (minus[0] ^ minus[1]) & ~nothing
    quotient = arithmetic.select(m, turned, arithmetic.negate(m, quotient), quotient)
    return quotient, arithmetic.select(m, minus[0], arithmetic.negate(m, rest), rest)


def _power_of_two(b: LongInteger) -> int | None:
    """The logarithm of a constant that is a power of two, below 2^31."""
    if not isinstance(b.narrow, Const):
        return None
    value = int(b.narrow.value)
    return value.bit_length() - 1 if value > 0 and value & (value - 1) == 0 else None


def _by_power(m: Writer, a: LongInteger, by: int, dtype: DType) -> tuple[LongInteger, LongInteger]:
    """Division by 2^by, which for a negative number rounds up: 2^by - 1 is added before."""
    signed = dtype is DType.I64
    raised = a
    if signed and by:
        sign = arithmetic.shift_by(m, P.SHR, a, 63, True)
        raised = arithmetic.add(m, a, arithmetic.shift_by(m, P.SHR, sign, 64 - by, False))
    quotient = arithmetic.shift_by(m, P.SHR, raised, by, signed)
    return quotient, arithmetic.sub(m, a, arithmetic.shift_by(m, P.SHL, quotient, by, False))


def _unsigned(m: Writer, a: LongInteger, b: LongInteger) -> tuple[LongInteger, LongInteger]:
    """Quotient and remainder of unsigned numbers: of single words where all upper ones are 0."""
    # all words are computed here: what the branches below compute is not known after them
    a, b = (LongInteger.of_words(one.low, one.high) for one in (a, b))
    if is_zero(a.high) and is_zero(b.high):
        quotient, rest = _of_words(m, a.low, b.low)
        upper = m.select(b.low.eq(0), quotient.like(ALL), quotient.like(0))
        return LongInteger.of_words(quotient, upper), LongInteger.of_words(rest, rest.like(0))
    short = ~m.any((a.high | b.high).ne(0))
    # the dividend moves out of its words to the left, and the quotient in
    left = [m.variable(word) for word in (a.low, a.high)]
    rests = [m.variable(a.low.like(0)) for _ in range(2)]
    with m.when(short):
        quotient, rest = _of_words(m, a.low, b.low)
        m.assign(left[0], quotient)
        m.assign(left[1], m.select(b.low.eq(0), quotient.like(ALL), quotient.like(0)))
        m.assign(rests[0], rest)
    with m.when(~short), m.repeat(Value(m, Const(64, I32))):
        _bit(m, b, left, rests)
    return LongInteger.of_words(*left), LongInteger.of_words(*rests)


def _of_words(m: Writer, x: Value, y: Value) -> tuple[Value, Value]:
    """Quotient and remainder of two words; by 0 all bits, and the dividend."""
    nothing = y.eq(0)
    safe = m.select(nothing, y.like(1), y)
    quotient, rest = m.native(P.DIV, x, safe), m.native(P.REM, x, safe)
    return m.select(nothing, quotient.like(ALL), quotient), m.select(nothing, x, rest)


def _bit(m: Writer, b: LongInteger, left: list[Value], rest: list[Value]) -> None:
    """The next bit of the dividend goes to the remainder, from which the divisor is subtracted
    where it is as large: that is the next bit of the quotient.
    """
    over = (rest[1] >> 31).ne(0)  # out of 64 bits, so above every divisor
    raised = LongInteger.of_words(
        (rest[0] << 1) | (left[1] >> 31), (rest[1] << 1) | (rest[0] >> 31)
    )
    taken = over | ~arithmetic.less(m, raised, b, DType.U64)
    new = arithmetic.select(m, taken, arithmetic.sub(m, raised, b), raised)
    low = (left[0] << 1) | taken.cast(U32)
    values = (low, (left[1] << 1) | (left[0] >> 31), new.low, new.high)
    for variable, value in zip((*left, *rest), values, strict=True):
        m.assign(variable, value)
