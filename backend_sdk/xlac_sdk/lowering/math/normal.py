"""gelu: x times the normal CDF. The coefficients are rounded minimax polynomials."""

from __future__ import annotations

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive as P
from xlac_sdk.lowering.math.comparison import magnitude
from xlac_sdk.lowering.math.exponential import EXP, LN2, LOG2E
from xlac_sdk.lowering.math.parts import (
    Exponent,
    Pair,
    nearest_integer,
    scaled_down,
    scaled_once,
    two_product,
)
from xlac_sdk.lowering.math.piecewise import PiecewisePolynomial, is_taken
from xlac_sdk.lowering.math.value import Value
from xlac_sdk.lowering.math.writer import Writer

# (Phi(x) - 1/2) / x in x^2, up to SMALL, relative to Phi(-|x|): errors 2^-28, 2^-58
NEAR = {
    DType.F32: (0.3989422619342804, -0.06648990511894226, 0.009969939477741718,
                -0.0011757176835089922, 9.86366649158299e-05),
    DType.F64: (
        0.3989422804014327, -0.06649038006690751, 0.009973557010087302, -0.0011873282160716479,
        0.0001154346913025432, -9.444669661011806e-06, 6.659980880782691e-07,
        -4.1260912108389234e-08, 2.290855267175034e-09, -1.0987637758020722e-10,
    ),
}  # fmt: skip
SMALL = 0.8
# a exp(a^2/2) Phi(-a) in a / (a + 4) - CENTRE, from SMALL on: errors 2^-27, 2^-55
FAR = {
    DType.F32: (
        0.30250027775764465, 0.5648435354232788, -1.4890055656433105, 2.3191347122192383,
        -2.213688611984253, 1.0496968030929565, 0.17113283276557922, -0.5017930865287781,
        0.1985992044210434,
    ),
    DType.F64: (
        0.34502107184994646, 0.33487848440841644, -0.9320322062655247, 1.5644930828577732,
        -1.6983306101674112, 1.0604084092708792, -0.11180791560620483, -0.3510141321904918,
        0.14843455852290316, 0.13569377410643996, -0.07771387544895529, -0.07420898459257562,
        0.031098520242729858, 0.04891490803934932, -0.004093367182974746, -0.029044288985640866,
        -0.011462890608811012, -0.000825557539796814, 0.06226022764749029, -0.06251941501816027,
        0.019127050047686635,
    ),
}  # fmt: skip
# chosen so that the first coefficient is nearly representable
CENTRE = {DType.F32: 0.261474609375, DType.F64: 0.35791015625}
# a exp(a^2/2) Phi(-a): errors 2^-24
TAIL = PiecewisePolynomial(
    centres=(
        0.0, 0.36132812, 0.55566406, 0.84521484, 1.2692871, 1.7734375, 2.270752, 2.6572266,
        3.5786133, 4.368164, 5.341797, 6.4978027, 7.7319336, 10.183838, 12.101318, 13.8845215,
    ),
    coefficients=(
      (
        0.0, 0.13843895, 0.18753743, 0.24040177, 0.29021788, 0.32541454, 0.3464138, 0.357351,
        0.3731859, 0.38067946, 0.3862223, 0.39009628, 0.3925788, 0.39520183, 0.39627203,
        0.39690426,
      ),
      (
        0.5, 0.28901204, 0.22003135, 0.15042605, 0.090644136, 0.05309689, 0.033275522,
        0.023965247, 0.012110277, 0.0073735933, 0.0043544015, 0.0025555238, 0.0015717461,
        0.000714652, 0.00043268036, 0.0002891568,
      ),
      (
        -0.3989392, -0.20828901, -0.15027292, -0.09496901, -0.051197678, -0.026445797,
        -0.014748272, -0.009750664, -0.0040875557, -0.002158163, -0.0010897812, -0.00054334936,
        -0.00028706438, -0.00010151626, -5.224852e-05, -3.0618718e-05,
      ),
      (
        0.2498578, 0.11939479, 0.08219438, 0.04845339, 0.023635158, 0.010906482, 0.0054713106,
        0.0033471934, 0.0011760374, 0.00054483156, 0.00023691313, 0.00010084222, 4.6095316e-05,
        1.2686484e-05, 5.569286e-06, 2.8674517e-06,
      ),
      (
        -0.13091882, -0.058751203, -0.038740758, -0.021482695, -0.009598353, -0.0039875945,
        -0.0018136037, -0.0010313211, -0.00031000387, -0.00012635015, -4.7410933e-05,
        -1.7411974e-05, -6.913192e-06, -1.4910836e-06, -5.597521e-07, -2.5209434e-07,
      ),
      (
        0.050420918, 0.027523907, 0.015258764, 0.008715074, 0.003996964, 0.0014988254,
        0.00061255944, 0.00026869786, 9.016432e-05, 2.445104e-05, 7.893169e-06, 2.9228343e-06,
        8.2432604e-07, 1.9393906e-07, 5.7772933e-08, 2.2147947e-08,
      ),
    ),
    offset=1.0390625,
)  # fmt: skip
SLOPE = 0.05  # a / (a + 4)^2, within a third
END = {DType.F32: 14.5, DType.F64: 39.0}  # a Phi(-a) underflows to 0 from here on
# and here 2^n is 0 in `scaled_down`
ZERO = {DType.F32: 16.272130253101437, DType.F64: 46.129836812187314}
FAST_END = {DType.F32: 13.0, DType.F64: 37.5}  # it is subnormal from here on


def gelu(m: Writer, x: Value) -> Value:
    """x Phi(x) = max(x, 0) - a Phi(-a), a = |x|, where nothing cancels, and x (1/2 + x p(x^2)) near
    0: 2 ulp; 2.1 without fma. By pieces there is no division, and no other form near 0.

    Phi(-a) = exp(-a^2/2) S(a). The rounding error of the last addition of the polynomial for a S(a)
    is compensated.
    """
    kind, scales = x.dtype, m.spells(P.LDEXP, (x,))
    a = magnitude(x).at_most((FAST_END if m.fast else END if scales else ZERO)[kind])
    n, grown = _density(m, a)
    pieces = is_taken(m, x)
    share, lost = TAIL.with_error(m, a) if pieces else _share(m, a)
    tail = share + m.fma(share, grown, lost)
    # where the result is 0 a factor is: rounding to 0 is slow, as subnormals are on some processors
    if scales and not m.fast:
        tail = m.select(a < END[kind], tail, 0.0)
    tail = (scaled_once if m.fast else scaled_down)(m, tail, n)
    if pieces:
        return x.at_least(-0.0) - tail
    near = x * m.fma(m.polynomial(x * x, NEAR[kind]), x, 0.5)
    return m.select(magnitude(x) < SMALL, near, x.at_least(-0.0) - tail)


def _density(m: Writer, a: Value) -> tuple[Exponent, Value]:
    """exp(-a^2/2) as 2^n (1 + e): n, and e. The square is kept unrounded until n ln 2
    is subtracted.
    """
    half = a * -0.5
    square, low = (half * a, None) if m.fused(a.dtype) else two_product(m, half, a)
    n = nearest_integer(m, square, LOG2E)
    whole = n.number * -LN2[a.dtype][0]
    r = m.fma(half, a, whole) if low is None else (whole + square) + low
    r = m.fma(n.number, -LN2[a.dtype][1], r)
    return n, m.fma(m.polynomial(r, EXP[a.dtype]), r * r, r)


def _share(m: Writer, a: Value) -> Pair:
    """a S(a), and its part below the last bit. The error of the quotient by a rounded divisor is
    compensated.
    """
    divisor = a + 4.0
    quotient = a / divisor
    t = m.fma(a - (divisor - 4.0), -SLOPE, quotient - CENTRE[a.dtype])
    first, *others = FAR[a.dtype]
    rest = m.polynomial(t, others)
    total = m.fma(rest, t, first)
    return total, m.fma(rest, t, first - total)
