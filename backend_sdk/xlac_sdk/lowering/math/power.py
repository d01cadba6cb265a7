"""pow: floats by a double-float logarithm, integers by repeated squaring."""

from __future__ import annotations

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Const
from xlac_sdk.kernel_ir.primitives import Primitive as P
from xlac_sdk.lowering.math.comparison import magnitude, sign_bit
from xlac_sdk.lowering.math.exponential import EXP2, RANGE2
from xlac_sdk.lowering.math.logarithm import ROOT_HALF
from xlac_sdk.lowering.math.parts import (
    Pair,
    nearest_integer,
    plus,
    scaled,
    split,
    times,
    two_product,
    two_sum,
)
from xlac_sdk.lowering.math.value import Value
from xlac_sdk.lowering.math.writer import Writer

# (log((1 + s) / (1 - s)) / s - 2 - 2/3 s^2) / s^4 in s^2, s = f / (2 + f): errors 2^-42, 2^-78 of
# the logarithm
TAIL = {
    DType.F32: (0.4000000059604645, 0.285715788602829, 0.22200526297092438, 0.19214870035648346),
    DType.F64: (
        0.4,
        0.2857142857142856,
        0.22222222222231394,
        0.1818181817883029,
        0.1538461587321275,
        0.13333288350524775,
        0.11767142590942745,
        0.10449443218235939,
        0.1082073847400999,
    ),
}
TWO_THIRDS = {
    DType.F32: (0.6666666865348816, -1.9868215517249155e-08),
    DType.F64: (0.6666666666666666, 3.700743415417188e-17),
}
LOG2E = {
    DType.F32: (1.44269502162933349609375, 1.92596299112661746887e-8),
    DType.F64: (1.4426950408889634, 2.0355273740931033e-17),
}


def power(m: Writer, x: Value, y: Value) -> Value:
    """x^y with the semantics of C's pow: 2 ulp, with all of IEEE's special cases. Integers wrap;
    negative exponents truncate.

    An exponent beyond the limit acts like an infinite one, which is even: |log2 x| is 0 or at least
    2^-mantissa, so the result overflows, underflows or is 1.
    """
    if not x.dtype.is_float:
        return integer_power(m, x, y)
    limit = 2.0 ** (x.format.mantissa + 13)
    a, exponent = magnitude(x), y.at_most(limit).at_least(-limit)
    product, rest = times(m, _log2(m, a), (exponent, exponent.like(0.0)))
    growing = m.select(exponent < 0.0, float("-inf"), x.like(float("inf")))
    product = m.select(a.eq(0.0), -growing, m.select(a.eq(float("inf")), growing, product))
    low, high = RANGE2[x.dtype]
    inside = magnitude(product) < 2.0 * high
    result = _exp2(m, product.at_least(low).at_most(high), m.select(inside, rest, 0.0))
    half = exponent * 0.5
    whole = m.apply(P.FLOOR, exponent).eq(exponent)
    odd = whole & m.apply(P.FLOOR, half).ne(half)
    result = m.select(odd, (result.bits | sign_bit(x)).bitcast(x.dtype), result)
    undefined = (x < 0.0) & x.ne(float("-inf")) & ~whole
    result = m.select(undefined | x.isnan | y.isnan, float("nan"), result)
    return m.select(y.eq(0.0) | x.eq(1.0), 1.0, result)


def _log2(m: Writer, a: Value) -> Pair:
    """log2 of a positive number as a pair: e + (2s + s^3 (2/3 + s^2 p(s^2))) log2(e).

    Terms after 2/3 are 2^-12 of the sum, so only the leading terms are pairs.
    """
    significand, exponent = split(m, a, ROOT_HALF)
    f, below = significand - 1.0, significand + 1.0
    below_rest = significand - (below - 1.0)
    reciprocal = 1.0 / below
    s1 = f * reciprocal
    product, error = two_product(m, s1, below)
    s0 = (((f - product) - error) - s1 * below_rest) * reciprocal
    s = two_sum(s1, s0)
    z = times(m, s, s)
    high, low = TWO_THIRDS[a.dtype]
    tail = z[0] * m.polynomial(z[0], TAIL[a.dtype])
    inner = two_sum(a.like(high), tail)
    inner = inner[0], inner[1] + low
    cubic = times(m, s, times(m, z, inner))
    natural = plus((s[0] * 2.0, s[1] * 2.0), cubic)
    one, two = LOG2E[a.dtype]
    binary = times(m, natural, (a.like(one), a.like(two)))
    e = exponent.cast(a.dtype)
    total = two_sum(e, binary[0])  # |e| is 0 or above |log2 m| <= 1/2
    return two_sum(total[0], total[1] + binary[1])


def _exp2(m: Writer, x: Value, rest: Value) -> Value:
    """2^(x + rest), where rest is less than an ulp of x."""
    n = nearest_integer(m, x, 1.0)
    r = (x - n.number) + rest
    return scaled(m, m.fma(m.polynomial(r, EXP2[x.dtype]), r, 1.0), n)


def integer_power(m: Writer, x: Value, y: Value) -> Value:
    """By repeated squaring, a step for each bit of the exponent; few if it is a constant.

    A negative exponent gives the truncated reciprocal: 0 except for 1 and -1.
    """
    if isinstance(y.expr, Const) and 0 <= int(y.expr.value) < 1 << 16:
        return _constant_power(x, int(y.expr.value))
    positive = y if not y.dtype.is_signed else m.select(y < 0, y.like(0), y)
    result, square = x.like(1), x
    for bit in range(x.dtype.bits - (1 if x.dtype.is_signed else 0)):
        taken = ((positive >> bit) & 1).ne(0)
        result = m.select(taken, result * square, result)
        square = square * square
    if not y.dtype.is_signed:
        return result
    odd = (y & 1).ne(0)
    unit = m.select(x.eq(-1) & odd, x.like(-1), m.select(x.eq(-1) | x.eq(1), x.like(1), x.like(0)))
    return m.select(y < 0, unit, result)


def _constant_power(x: Value, exponent: int) -> Value:
    result, square = None, x
    while exponent:
        if exponent & 1:
            result = square if result is None else result * square
        exponent >>= 1
        if exponent:
            square = square * square
    return x.like(1) if result is None else result
