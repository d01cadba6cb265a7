"""sin, cos and atan2. The coefficients are minimax polynomials, computed by the Remez algorithm in
50 digits and rounded.
"""

from __future__ import annotations

from math import pi

from xlac_sdk.dtypes import DType
from xlac_sdk.lowering.math import payne
from xlac_sdk.lowering.math.comparison import magnitude, sign_bit, with_sign
from xlac_sdk.lowering.math.parts import nearest_integer, two_sum
from xlac_sdk.lowering.math.value import Value
from xlac_sdk.lowering.math.writer import Writer

# (sin(r) / r - 1) / r^2 and (cos(r) - 1 + r^2/2) / r^4 in r^2, for |r| slightly above pi/4: errors
# 2^-28 and 2^-33 in f32, 2^-68 and 2^-64 in f64
SIN = {
    DType.F32: (-0.16666655242443085, 0.008332154713571072, -0.00019514086307026446),
    DType.F64: (
        -0.16666666666666666, 0.008333333333333323, -0.0001984126984125439, 2.7557319213831462e-06,
        -2.5052104816566792e-08, 1.6058354341684326e-10, -7.578080472822755e-13,
    ),
}  # fmt: skip
COS = {
    DType.F32: (0.04166664555668831, -0.0013887338407959, 2.4434872102574445e-05),
    DType.F64: (
        0.041666666666666595,
        -0.0013888888888873387,
        2.4801587289001967e-05,
        -2.755731420815676e-07,
        2.0875702992554855e-09,
        -1.1358564919252117e-11,
    ),
}
# pi/2 in parts, all but the last so short that n times them is exact below the limit (Cody-Waite)
PARTS = {
    DType.F32: (1.5703125, 0.0004837512969970703, 7.549533620476723e-08, 2.5633440682570896e-12),
    DType.F64: (1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21),
}
LIMIT = {DType.F32: 8192.0, DType.F64: 2.0**19}
# the same with fma, where every product is exact
FUSED_PARTS_F32 = (
    1.57079637050628662109375,
    -4.371138828673792886547744274139404296875e-8,
    -1.7151245100058e-15,
)
FUSED_LIMIT_F32 = 32768.0
# (atan(t) / t - 1) / t^2 in t^2, for 0 <= t <= 1: errors 2^-28, 2^-60
ATAN = {
    DType.F32: (
        -0.33333298563957214, 0.19998547434806824, -0.14264240860939026, 0.10952179878950119,
        -0.08403434604406357, 0.05795735865831375, -0.031177636235952377, 0.010914504528045654,
        -0.0017936014337465167,
    ),
    DType.F64: (
        -0.33333333333333287, 0.1999999999999045, -0.14285714285036796, 0.1111111108645252,
        -0.09090908547353649, 0.0769229971301602, -0.06666583733743513, 0.058817162246698786,
        -0.05259434132368335, 0.04744927403758582, -0.04286394677252401, 0.038210150246917256,
        -0.032785585191268625, 0.026151891277031488, -0.018614452829408278, 0.011317873533352757,
        -0.005612536003623716, 0.0021516605674773526, -0.0005929176501076871,
        0.00010387695112756186, -8.654692044526076e-06,
    ),
}  # fmt: skip


def sin(m: Writer, x: Value) -> Value:
    """sin x for every x: 1.5 ulp. Fast: |x| up to the limit of `_reduced` only."""
    quadrant, r = _reduced(m, x)
    turned = ((quadrant & 2) << (x.format.width - 2)) ^ sign_bit(x)
    return _flipped(m.select((quadrant & 1).eq(0), _sine(m, r), _cosine(m, r)), turned)


def cos(m: Writer, x: Value) -> Value:
    """cos x for every x: 1.5 ulp. Fast: |x| up to the limit of `_reduced` only."""
    quadrant, r = _reduced(m, x)
    turned = ((quadrant + 1) & 2) << (x.format.width - 2)
    return _flipped(m.select((quadrant & 1).eq(0), _cosine(m, r), _sine(m, r)), turned)


def _reduced(m: Writer, x: Value) -> tuple[Value, Value]:
    """|x| = quadrant pi/2 + r, with the quadrant in its low two bits.

    Up to the limit by subtracting n pi/2 in parts; a vector with a larger lane uses Payne-Hanek
    reduction.
    """
    a = magnitude(x)
    fused = x.dtype is DType.F32 and m.fused(x.dtype)
    parts = FUSED_PARTS_F32 if fused else PARTS[x.dtype]
    limit = FUSED_LIMIT_F32 if fused else LIMIT[x.dtype]
    turns = nearest_integer(m, a, 2 / pi)
    n, quadrant = turns.number, turns.integer
    r = a
    for part in parts if fused else parts[:-2]:
        r = m.fma(n, -part, r)
    if not fused:  # the last two parts would both round
        r, lost = two_sum(r, n * -parts[-2])
        r = r + m.fma(n, -parts[-1], lost)
    if m.fast:
        return quadrant, r
    far = limit < a
    quadrant_, r_ = m.variable(quadrant), m.variable(r)
    with m.when(m.any(far)):
        finite = a < float("inf")
        exact, rest = payne.reduce(m, m.select(far & finite, a, 1.0))
        m.assign(quadrant_, m.select(far, exact, quadrant))
        m.assign(r_, m.select(far, m.select(finite, rest, float("nan")), r))
    return quadrant_, r_


def _sine(m: Writer, r: Value) -> Value:
    z = r * r
    return m.fma(z * r, m.polynomial(z, SIN[r.dtype]), r)


def _cosine(m: Writer, r: Value) -> Value:
    """1 - z/2 + z^2 p(z), with the rounding error of the first subtraction added (fdlibm)."""
    z = r * r
    half = z * 0.5
    near = 1.0 - half
    return near + m.fma(z * z, m.polynomial(z, COS[r.dtype]), (1.0 - near) - half)


def _flipped(x: Value, sign: Value) -> Value:
    return (x.bits ^ sign).bitcast(x.dtype)


def atan2(m: Writer, y: Value, x: Value) -> Value:
    """The angle of (x, y), with signed zeros and infinities as in C's atan2: 2 ulp.

    atan of the smaller over the larger, then reflected at the diagonal and at the axis, with pi as
    a pair.
    """
    a, b = magnitude(y), magnitude(x)
    steep = b < a
    small, large = m.select(steep, b, a), m.select(steep, a, b)
    t = m.select(small.eq(large), m.select(large.eq(0.0), 0.0, x.like(1.0)), small / large)
    z = t * t
    p = m.fma(z * t, m.polynomial(z, ATAN[x.dtype]), t)
    left = sign_bit(x).ne(0)
    p = m.select(steep ^ left, -p, p)
    low = payne.PI_LOW[x.dtype]
    base = m.select(steep, x.like(pi / 2), m.select(left, x.like(pi), 0.0))
    base_low = m.select(steep, x.like(low / 2), m.select(left, x.like(low), 0.0))
    angle = with_sign(magnitude(base + (p + base_low)), sign_bit(y))
    return m.select(x.isnan | y.isnan, float("nan"), angle)
