"""Exponents, significands and exact products, shared by float expansions."""

from __future__ import annotations

from dataclasses import dataclass

from xlac_sdk.kernel_ir.primitives import Primitive as P
from xlac_sdk.lowering.math.value import Value
from xlac_sdk.lowering.math.writer import Writer

# an unevaluated sum of two numbers, the second at most half an ulp of the first
Pair = tuple[Value, Value]


def power_of_two(m: Writer, n: Value, like: Value) -> Value:
    """2^n in the type of `like`, for an integer n in the normal range."""
    f = like.format
    return ((n + f.bias) << f.mantissa).bitcast(f.dtype)


@dataclass(frozen=True, slots=True)
class Exponent:
    """A whole number as a float and as a signed integer as wide: instructions that scale by a power
    of two take the float.
    """

    number: Value
    integer: Value

    @staticmethod
    def of(integer: Value, like: Value) -> Exponent:
        """An integer in the type of `like`, in which it must be exact."""
        return Exponent(integer.cast(like.dtype), integer)


def scaled_once(m: Writer, x: Value, n: Exponent) -> Value:
    """x * 2^n for an n in the normal range: one product."""
    if m.spells(P.LDEXP, (x,)):
        return m.native(P.LDEXP, x, n.number)
    return x * power_of_two(m, n.integer, x)


def scaled(m: Writer, x: Value, n: Exponent) -> Value:
    """x * 2^n for |n| up to twice the bias: without an instruction in two steps, of which the
    second may round to a subnormal.
    """
    if m.spells(P.LDEXP, (x,)):
        return m.native(P.LDEXP, x, n.number)
    half = n.integer >> 1
    return (x * power_of_two(m, half, x)) * power_of_two(m, n.integer - half, x)


def scaled_down(m: Writer, x: Value, n: Exponent) -> Value:
    """The same for x near 1 and n from -1.5 times the bias to 0, with fewer operations, as the
    first product is exact.
    """
    if m.spells(P.LDEXP, (x,)):
        return m.native(P.LDEXP, x, n.number)
    step = (x.format.bias + 1) // 2
    return (x * 2.0**-step) * power_of_two(m, n.integer + step, x)


def nearest_integer(m: Writer, x: Value, factor: float) -> Exponent:
    """`x * factor` rounded to the nearest integer, which must be small.

    Adding 1.5 * 2^mantissa leaves the integer in the low bits.
    """
    f = x.format
    shifted = m.fma(x, factor, f.magic)
    return Exponent(shifted - f.magic, shifted.bits - f.pattern(f.magic))


def split(m: Writer, x: Value, low: float) -> tuple[Value, Value]:
    """A positive number as significand in [low, 2 low) and exponent, also for subnormals.

    Zero, infinities and NaN give a finite number or NaN that the caller replaces.
    """
    f = x.format
    tiny = x < f.smallest_normal
    bits = m.select(tiny, x * 2.0**f.mantissa, x).bits
    exponent = (bits - f.pattern(low)) >> f.mantissa
    significand = (bits - (exponent << f.mantissa)).bitcast(f.dtype)
    return significand, m.select(tiny, exponent - f.mantissa, exponent)


# ---- double-float arithmetic ------------------------------------------------------------------


def two_sum(a: Value, b: Value) -> Pair:
    """a + b exactly, for |a| >= |b| (Dekker)."""
    total = a + b
    return total, b - (total - a)


def two_product(m: Writer, a: Value, b: Value) -> Pair:
    """a * b exactly: by fma, else by splitting significands (Veltkamp, Dekker)."""
    product = a * b
    if m.fused(a.dtype):
        return product, m.fma(a, b, -product)
    (a1, a0), (b1, b0) = _halves(a), _halves(b)
    return product, ((a1 * b1 - product) + a1 * b0 + a0 * b1) + a0 * b0


def _halves(x: Value) -> Pair:
    """The upper half of the significand, and the remainder."""
    big = x * (2.0 ** ((x.format.mantissa + 2) // 2) + 1.0)
    high = big - (big - x)
    return high, x - high


def times(m: Writer, a: Pair, b: Pair) -> Pair:
    """The product of two pairs, with an error of about two units of the low part."""
    high, low = two_product(m, a[0], b[0])
    return two_sum(high, low + m.fma(a[0], b[1], a[1] * b[0]))


def plus(a: Pair, b: Pair) -> Pair:
    """The sum of two pairs, for |a| >= |b| or of equal sign."""
    high, low = two_sum(a[0], b[0])
    return two_sum(high, low + (a[1] + b[1]))
