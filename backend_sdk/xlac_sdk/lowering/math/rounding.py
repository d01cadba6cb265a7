"""Rounding to integers, remainders and square roots of floats: exact, or within an ulp where
stated.
"""

from __future__ import annotations

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.build import INDEX
from xlac_sdk.kernel_ir.kernel import Fold
from xlac_sdk.kernel_ir.primitives import Primitive as P
from xlac_sdk.lowering.math.comparison import magnitude, sign_bit, with_sign
from xlac_sdk.lowering.math.parts import Exponent, power_of_two, scaled, split, two_product
from xlac_sdk.lowering.math.value import Value
from xlac_sdk.lowering.math.writer import Writer


def nearest(m: Writer, x: Value) -> Value:
    """The nearest integer, ties to even: adding and subtracting 2^mantissa rounds the fraction
    away.
    """
    return _outside(m, x, _nearest(m, x))


def floor(m: Writer, x: Value) -> Value:
    """The greatest integer not above x."""
    r = _nearest(m, x)
    return _outside(m, x, m.select(x < r, r - 1.0, r))


def ceil(m: Writer, x: Value) -> Value:
    """The least integer not below x."""
    r = _nearest(m, x)
    return _outside(m, x, m.select(r < x, r + 1.0, r))


def trunc(m: Writer, x: Value) -> Value:
    """Towards zero."""
    a = magnitude(x)
    big = 2.0**x.format.mantissa
    r = (a + big) - big
    r = m.select(a < r, r - 1.0, r)
    return m.select(a < big, with_sign(r, sign_bit(x)), x)


def _nearest(m: Writer, x: Value) -> Value:
    """The same for |x| < 2^mantissa; the sign of a zero may be lost."""
    if m.target.spells(P.ROUND, x.dtype):
        return m.native(P.ROUND, x)
    big = 2.0**x.format.mantissa
    a = (magnitude(x) + big) - big
    return with_sign(a, sign_bit(x))


def _outside(m: Writer, x: Value, rounded: Value) -> Value:
    """Keeps x if it is an integer already, infinite or NaN; a zero result takes the sign of x."""
    signed = with_sign(magnitude(rounded), sign_bit(x))
    return m.select(magnitude(x) < 2.0**x.format.mantissa, signed, x)


def remainder(m: Writer, x: Value, y: Value) -> Value:
    """C's fmod, exact over the whole range: long division of the significands, `step` quotient bits
    per iteration.

    Both significands are multiples of 2^-mantissa, so r 2^step - q b is too, and smaller than b:
    exact with one rounding for a quotient q that may be one too large. |x| < 2 |y| takes no
    iteration, a quotient below 2^step one, and a vector as many as its largest quotient.
    """
    f = x.format
    step = f.mantissa - 2
    a, b = magnitude(x), magnitude(y)
    invalid = ~((a < float("inf")) & (b > 0.0)) | y.isnan
    plain = invalid | (a < b)  # the result is NaN or x
    (rest, high), (by, low) = (
        split(m, m.select(plain, 1.0, a), 1.0),
        split(m, m.select(plain, 1.0, b), 1.0),
    )
    gap = high - low
    longest = (gap if gap.lanes == 1 else m.let(Fold(P.MAX, gap.expr))).cast(INDEX)
    r, left = m.variable(m.select(rest < by, rest, rest - by)), m.variable(gap)
    with m.repeat(m.native(P.DIV, longest + (step - 1), longest.like(step))):
        shift = m.select(left < step, left, step)
        raised = r * power_of_two(m, shift, x)
        quotient = m.apply(P.TRUNC, raised / by)
        new = _difference(m, raised, quotient, by)
        m.assign(r, m.select(new < 0.0, new + by, new))
        m.assign(left, left - shift)
    signed = with_sign(scaled(m, r, Exponent.of(low, r)), sign_bit(x))
    return m.select(invalid, float("nan"), m.select(plain, x, signed))


def _difference(m: Writer, x: Value, q: Value, by: Value) -> Value:
    """x - q * by, which is known to be a float."""
    if m.fused(x.dtype):
        return m.fma(-q, by, x)
    high, low = two_product(m, q, by)
    return (x - high) - low


# ---- roots -----------------------------------------------------------------------------------


def reciprocal_root(m: Writer, x: Value) -> Value:
    """1 / sqrt(x) with two correct roundings, at most 1.5 ulp."""
    return 1.0 / m.apply(P.SQRT, x)


def root(m: Writer, x: Value) -> Value:
    """sqrt by Newton's iterations for 1/sqrt from a bit-level initial guess, and one exact
    residual: 1 ulp.

    Exponents are removed first, so that subnormals are as exact as the rest.
    """
    f = x.format
    mantissa, exponent = split(m, x, 1.0)
    odd = exponent & 1
    a = mantissa * m.select(odd.eq(1), x.like(2.0), x.like(1.0))  # in [1, 4)
    guess = 0x5F375A86 if f.dtype is DType.F32 else 0x5FE6EB50C7B537A9
    y = (guess - (a.bits >> 1)).bitcast(f.dtype)
    for _ in range(3 if f.dtype is DType.F32 else 4):
        y = y * (1.5 - (0.5 * a) * (y * y))
    high, low = two_product(m, s := a * y, s)
    s = s + ((a - high) - low) * (0.5 * y)
    result = s * power_of_two(m, (exponent - odd) >> 1, x)
    result = m.select((x > 0.0) & (x < float("inf")), result, x)  # zeros keep their sign
    return m.select(x < 0.0, float("nan"), result)
