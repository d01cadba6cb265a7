"""gelu: x times the normal CDF. The coefficients are rounded minimax polynomials."""

from __future__ import annotations

from xlac_sdk.dtypes import DType
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
SLOPE = 0.05  # a / (a + 4)^2, within a third
END = {DType.F32: 14.5, DType.F64: 39.0}  # a Phi(-a) underflows to 0 from here on
FAST_END = {DType.F32: 13.0, DType.F64: 37.5}  # and is subnormal from here on


def gelu(m: Writer, x: Value) -> Value:
    """x Phi(x) = max(x, 0) - a Phi(-a), a = |x|, where nothing cancels, and x (1/2 + x p(x^2)) near
    0: 2 ulp; 2.1 without fma.

    Phi(-a) = exp(-a^2/2) S(a). The rounding error of the last addition of the polynomial for a S(a)
    is compensated.
    """
    kind = x.dtype
    a = magnitude(x).at_most((FAST_END if m.fast else END)[kind])
    n, grown = _density(m, a)
    share, lost = _share(m, a)
    tail = share + m.fma(share, grown, lost)
    tail = (scaled_once if m.fast else scaled_down)(m, tail, n)
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
