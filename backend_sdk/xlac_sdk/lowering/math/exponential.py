"""exp and related functions. The coefficients are minimax polynomials, computed by the Remez
algorithm in 50 digits and rounded.
"""

from __future__ import annotations

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive as P
from xlac_sdk.lowering.math.comparison import magnitude, sign_bit, with_sign
from xlac_sdk.lowering.math.parts import (
    Exponent,
    nearest_integer,
    power_of_two,
    scaled,
    scaled_down,
    scaled_once,
)
from xlac_sdk.lowering.math.piecewise import PiecewisePolynomial, is_taken
from xlac_sdk.lowering.math.value import Value
from xlac_sdk.lowering.math.writer import Writer

LOG2E = 1.4426950408889634
# ln 2 in two parts; n times the first is exact for every exponent n (Cephes, fdlibm)
LN2 = {
    DType.F32: (0.693359375, -2.12194440e-4),
    DType.F64: (6.93147180369123816490e-01, 1.90821492927058770002e-10),
}
# (exp(r) - 1 - r) / r^2 on |r| <= ln 2 / 2, relative to expm1: errors 2^-26, 2^-55
EXP = {
    DType.F32: (0.4999999701976776, 0.1666654348373413, 0.04166720062494278, 0.00836651399731636,
                0.001388253178447485),
    DType.F64: (
        0.5000000000000006, 0.16666666666666588, 0.041666666666576875, 0.008333333333390657,
        0.0013888888931547325, 0.0001984126971694173, 2.480150528449723e-05, 2.7557409187906203e-06,
        2.7626035292913333e-07, 2.505330186504847e-08,
    ),
}  # fmt: skip
# (2^r - 1) / r on |r| <= 1/2: errors 2^-29, 2^-64
EXP2 = {
    DType.F32: (
        0.6931471824645996, 0.24022647738456726, 0.055503323674201965, 0.00961843691766262,
        0.0013398873852565885, 0.00015353364869952202,
    ),
    DType.F64: (
        0.6931471805599453, 0.24022650695910072, 0.05550410866482169, 0.00961812910762833,
        0.0013333558146392688, 0.00015403530393640627, 1.5252733854319535e-05,
        1.3215486594988465e-06, 1.0178051941654193e-07, 7.054974449938712e-09,
        4.456570530420484e-10, 2.5625459912994826e-11,
    ),
}  # fmt: skip
# (tanh(x) / x - 1) / x^2 in x^2, for |x| <= 0.55: errors 2^-30, 2^-55
TANH = {
    DType.F32: (
        -0.33333319425582886, 0.13332602381706238, -0.05385386198759079, 0.021077768877148628,
        -0.006282488349825144,
    ),
    DType.F64: (
        -0.3333333333333235, 0.1333333333317373, -0.053968253878366346, 0.02186948602591525,
        -0.008863195150493932, 0.0035917246353050786, -0.0014532399938445655, 0.0005792029029581543,
        -0.00021040562259537168, 5.109011094060367e-05,
    ),
}  # fmt: skip
TANH_SPLIT = 0.55
# tanh, which rounds to 1 from its end on: errors 2^-25
TANH_PIECES = PiecewisePolynomial(
    centres=(
        0.0, 0.23730469, 0.38305664, 0.55029297, 0.7548828, 1.1123047, 1.4206543, 1.6677246,
        2.0878906, 2.8413086, 3.4555664, 3.9311523, 5.0629883, 6.027832, 7.278076, 8.664307,
    ),
    coefficients=(
      (
        0.0, 0.2329483, 0.36535904, 0.50073975, 0.63805294, 0.80487555, 0.88973534, 0.9312502,
        0.96973854, 0.99321383, 0.9980087, 0.9992303, 0.99991995, 0.9999884, 0.99999905,
        0.99999994,
      ),
      (
        1.0, 0.9457351, 0.8665128, 0.7492597, 0.5928885, 0.35217503, 0.20837085, 0.13277307,
        0.059606865, 0.013526553, 0.0039786776, 0.0015387306, 0.00016025787, 2.3235378e-05,
        1.9063322e-06, 1.1926514e-07,
      ),
      (
        8.739398e-07, -0.22030643, -0.31658673, -0.3751839, -0.37829432, -0.28345817, -0.18539557,
        -0.123645775, -0.057802908, -0.01343419, -0.0039705327, -0.001537489, -0.00016003296,
        -2.3216959e-05, -1.9033598e-06, -1.1915787e-07,
      ),
      (
        -0.3333841, -0.26393953, -0.17317012, -0.061899215, 0.043732364, 0.11083713, 0.095540285,
        0.070879854, 0.036204368, 0.008816812, 0.0026301623, 0.0010252864, 0.00010404928,
        1.5678328e-05, 1.2849431e-06, 7.8339866e-08,
      ),
      (
        0.00087504904, 0.13440914, 0.16814801, 0.15583262, 0.098183215, 0.005623534, -0.023027169,
        -0.024698833, -0.01585234, -0.00432391, -0.0013176029, -0.00051498733, -5.4840377e-05,
        -8.098648e-06, -6.709406e-07, -4.111564e-08,
      ),
      (
        0.12829316, 0.08040553, 0.015397263, -0.03744636, -0.06319741, -0.037616823, -0.008975273,
        0.0026842854, 0.0043378635, 0.0018612556, 0.000599809, 0.00018007265, 3.0278281e-05,
        2.5835295e-06, 2.2067603e-07, 2.064126e-08,
      ),
    ),
    scale=1.625,
)  # fmt: skip
TANH_END = 9.125
# bounds beyond which exp overflows or is 0; in between, 2^n is in the range of `scaled`
RANGE = {DType.F32: (-104.0, 89.0), DType.F64: (-745.2, 710.0)}
RANGE2 = {DType.F32: (-151.0, 128.5), DType.F64: (-1076.0, 1024.5)}
# the same for a single multiplication by 2^n: subnormal results are flushed to 0
FAST = {DType.F32: (-88.0, 88.7), DType.F64: (-709.0, 709.7)}


def _reduced(m: Writer, x: Value) -> tuple[Exponent, Value]:
    """x = n ln 2 + r: n, and r + n times the low part of ln 2, exactly."""
    n = nearest_integer(m, x, LOG2E)
    return n, m.fma(n.number, -LN2[x.dtype][0], x)


def exp(m: Writer, x: Value) -> Value:
    """e^x = 2^n (1 + r + r^2 q(r)): 1 ulp; subnormal results are rounded twice. Fast: they are
    flushed to 0.
    """
    if m.fast:
        low, high = FAST[x.dtype]
        return scaled_once(m, *_significand(m, x.at_least(low).at_most(high)))
    return _or_zero(m, x, scaled(m, *_significand(m, x.at_most(RANGE[x.dtype][1]))))


def bounded_exp(m: Writer, x: Value) -> Value:
    """exp for |x| up to 80, or NaN, without clamping and with a single scaling."""
    if m.spells(P.EXP, (x,)):
        return m.native(P.EXP, x)
    return scaled_once(m, *_significand(m, x))


def falling_exp(m: Writer, x: Value) -> Value:
    """exp for x up to 0, or NaN."""
    if m.spells(P.EXP, (x,)):
        return m.native(P.EXP, x)
    if m.fast:
        return scaled_once(m, *_significand(m, x.at_least(FAST[x.dtype][0])))
    return _or_zero(m, x, scaled_down(m, *_significand(m, x)))


def _or_zero(m: Writer, x: Value, y: Value) -> Value:
    """e^x, which `y` is unless it is 0: there y may be anything. To round it to 0 would be slow, as
    subnormal results are on some processors.
    """
    return m.select(x < RANGE[x.dtype][0], 0.0, y)


def _significand(m: Writer, x: Value) -> tuple[Value, Exponent]:
    """1 + r + r^2 q(r), and n."""
    n, high = _reduced(m, x)
    r = m.fma(n.number, -LN2[x.dtype][1], high)
    if m.fused(x.dtype):
        return m.polynomial(r, (1.0, 1.0, *EXP[x.dtype])), n
    return m.fma(m.polynomial(r, EXP[x.dtype]), r * r, r) + 1.0, n


def exp2(m: Writer, x: Value) -> Value:
    """2^x = 2^n 2^r: 1 ulp; the reduction is exact."""
    low, high = RANGE2[x.dtype]
    x = x.at_least(low).at_most(high)
    n = nearest_integer(m, x, 1.0)
    r = x - n.number
    return scaled(m, m.fma(m.polynomial(r, EXP2[x.dtype]), r, 1.0), n)


def expm1(m: Writer, x: Value) -> Value:
    """e^x - 1 = (2^n - 1) + 2^n (r + r^2 q(r)), adding large parts first: 1.5 ulp.

    n = 128 (f32; 1024 f64) is handled by doubling half the sum; below -25 (-55) the result rounds
    to -1.
    """
    low, high = (-25.0, 89.0) if x.dtype is DType.F32 else (-55.0, 710.0)
    t = x.at_least(low).at_most(high)
    n, r1 = _reduced(m, t)
    r0 = n.number * LN2[x.dtype][1]
    r = r1 - r0
    # the low part of r + r^2 q
    tail = m.fma(m.polynomial(r, EXP[x.dtype]), r * r, (r1 - r) - r0)
    half = power_of_two(m, n.integer - 1, x)
    total = (half - 0.5) + half * r
    lost = half * r - (total - (half - 0.5))
    y = (m.fma(half, tail, lost) + total) * 2.0
    y = m.select(n.integer.eq(0), r + tail, y)
    return m.select(magnitude(x) < x.format.smallest_normal, x, y)  # and for -0


def ldexp(m: Writer, x: Value, n: Value) -> Value:
    """x * 2^n, for an integral n of x's type, in three products: the first two are exact if the
    result is neither 0 nor infinite.
    """
    f = x.format
    up, least = f.bias, 1 - f.bias
    n = n.at_least(4.0 * least).at_most(4.0 * up).cast(f.bits)
    for _ in range(2):
        step = m.select(n > up, n.like(up), m.select(n < least, n.like(least + f.mantissa + 1), 0))
        x, n = x * power_of_two(m, step, x), n - step
    return x * power_of_two(m, n.at_least(least).at_most(up), x)


def tanh(m: Writer, x: Value) -> Value:
    """x + x^3 p(x^2) near 0, else 1 - 2 / (e^2x + 1): 1.5 ulp; by pieces 1 ulp."""
    if is_taken(m, x):
        return with_sign(TANH_PIECES(m, magnitude(x).at_most(TANH_END)), sign_bit(x))
    a = magnitude(x).at_most(10.0 if x.dtype is DType.F32 else 20.0)
    z = a * a
    near = m.fma(m.polynomial(z, TANH[x.dtype]), z * a, a)
    far = 1.0 - 2.0 / (bounded_exp(m, a + a) + 1.0)
    return with_sign(m.select(a < TANH_SPLIT, near, far), sign_bit(x))


def sigmoid(m: Writer, x: Value) -> Value:
    """1 / (1 + e^-x), computed from e^-|x| so that nothing overflows and small results keep their
    precision: 2 ulp.

    The quotient is corrected for the rounding error of 1 + e, unless fast.
    """
    e = falling_exp(m, -magnitude(x))
    below = x < 0.0
    divisor = e + 1.0
    quotient = m.select(below, e, e.like(1.0)) / divisor
    if m.fast:
        return quotient
    lost = e - (divisor - 1.0)
    reciprocal = m.select(below, 1.0 - quotient, quotient)
    return m.fma(quotient * -lost, reciprocal, quotient)
