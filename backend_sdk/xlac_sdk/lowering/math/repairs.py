"""Exact forms of primitives that every target has, for those whose own are weak
(`xlac_sdk.arithmetic`): comparisons on bits, and division corrected by its exact remainder.

Nothing here tests a float for NaN, or computes with a subnormal one.
"""

from __future__ import annotations

from xlac_sdk.kernel_ir.primitives import Primitive as P
from xlac_sdk.lowering.math.value import Value
from xlac_sdk.lowering.math.writer import Expansion, Writer

WITHIN = 32  # units of the scaled quotient that the native one may be off: 6 ulp are 25


def less(m: Writer, a: Value, b: Value) -> Value:
    """`a < b`: by sign and magnitude as integers."""
    return _ordered(m, a, b) & (_rank(m, a) < _rank(m, b))


def equal(m: Writer, a: Value, b: Value) -> Value:
    """`a == b`: equal bits, but for zeros and NaN."""
    return _ordered(m, a, b) & _rank(m, a).eq(_rank(m, b))


def _ordered(m: Writer, a: Value, b: Value) -> Value:
    """Whether neither is NaN."""
    inf = a.format.pattern(float("inf"))
    return ~((inf < _bits(a)) | (inf < _bits(b)))


def _rank(m: Writer, x: Value) -> Value:
    """An integer in the order of floats; zeros of both signs are 0."""
    magnitude = _bits(x)
    return m.select(x.bits < 0, 0 - magnitude, magnitude)


def _bits(x: Value) -> Value:
    """The bits of a float's magnitude, not negative."""
    return x.bits & ((1 << (x.format.width - 1)) - 1)


def divide(m: Writer, x: Value, y: Value) -> Value:
    """x / y, correctly rounded, of a native quotient that is off by a few units.

    The significands are normalized as integers, their native quotient is scaled to an integer of
    two bits more than a significand, and its remainder, which is small, is exact in integers that
    wrap. So the quotient is corrected to the true one, cut off, and rounded once.
    """
    f = x.format
    inf, sign = f.pattern(float("inf")), (x.bits ^ y.bits) & (-1 << (f.width - 1))
    (left, up), (right, down) = _normalized(m, x), _normalized(m, y)
    quotient, rest = _whole_quotient(m, left, right, x)
    below = quotient < (1 << (f.mantissa + 2))  # of significands whose quotient is below 1
    exponent = up - down + m.select(below, quotient.like(f.bias - 1), quotient.like(f.bias))
    rounded = _rounded(m, quotient, rest, below, exponent, x)
    a, b = _bits(x), _bits(y)
    bits = m.select(exponent < 2 * f.bias + 1, rounded, rounded.like(inf))
    bits = m.select(a.eq(inf) | b.eq(0), bits.like(inf), bits)
    bits = m.select(a.eq(0) | b.eq(inf), bits.like(0), bits)
    invalid = (a.eq(0) & b.eq(0)) | (a.eq(inf) & b.eq(inf)) | (inf < a) | (inf < b)
    bits = m.select(invalid, bits.like(f.pattern(float("nan"))), bits | sign)
    return bits.bitcast(f.dtype)


def _normalized(m: Writer, x: Value) -> tuple[Value, Value]:
    """A magnitude's significand, an integer with its highest bit at `mantissa`, and its exponent;
    zeros, infinities and NaN give some that are replaced.
    """
    f = x.format
    bits = _bits(x)
    exponent, hidden = bits >> f.mantissa, 1 << f.mantissa
    tiny = exponent.eq(0)
    some = m.select(bits.eq(0), bits.like(1), bits)
    shift = m.select(tiny, m.apply(P.CLZ, some) - (f.width - 1 - f.mantissa), bits.like(0))
    shifted = some << shift
    significand = m.select(tiny, shifted, (bits & (hidden - 1)) | hidden)
    return significand, m.select(tiny, 1 - shift, exponent)


def _whole_quotient(m: Writer, left: Value, right: Value, like: Value) -> tuple[Value, Value]:
    """floor(left * 2^(mantissa + 2) / right), and whether that is all of it: 0 where it is."""
    f = like.format
    one, hidden = f.bias << f.mantissa, 1 << f.mantissa
    a, b = (((n & (hidden - 1)) | one).bitcast(f.dtype) for n in (left, right))
    scaled = m.native(P.DIV, a, b) * (4.0 * hidden)
    quotient = m.native(P.CAST, scaled, dtype=f.bits) - WITHIN
    rest = (left << (f.mantissa + 2)) - quotient * right
    step = WITHIN
    while step:
        more = right * step
        again = ~(rest < more)
        quotient = m.select(again, quotient + step, quotient)
        rest = m.select(again, rest - more, rest)
        step //= 2
    return quotient, rest


def _rounded(
    m: Writer, quotient: Value, rest: Value, below: Value, exponent: Value, like: Value
) -> Value:
    """The bits of a quotient rounded to nearest even, also where that is subnormal or infinite."""
    f = like.format
    normal = exponent > 0
    short = m.select(normal, exponent.like(0), 1 - exponent)
    short = m.select(short < f.mantissa + 2, short, short.like(f.mantissa + 2))
    drop = m.select(below, quotient.like(1), quotient.like(2)) + short
    kept = quotient >> drop
    lost = quotient - (kept << drop)
    half = quotient.like(1) << (drop - 1)
    beyond = (half < lost) | (lost.eq(half) & (~rest.eq(0) | (kept & 1).eq(1)))
    kept = m.select(beyond, kept + 1, kept)
    base = m.select(normal, (exponent - 1) << f.mantissa, exponent.like(0))
    return base + kept


REPAIRS: dict[P, Expansion] = {P.LT: less, P.EQ: equal, P.DIV: divide}
