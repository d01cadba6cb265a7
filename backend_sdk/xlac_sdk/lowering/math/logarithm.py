"""Logarithms. The coefficients are minimax polynomials, computed by the Remez algorithm in 50
digits and rounded.
"""

from __future__ import annotations

from math import sqrt

from xlac_sdk.dtypes import DType
from xlac_sdk.lowering.math.exponential import LN2, LOG2E
from xlac_sdk.lowering.math.parts import split
from xlac_sdk.lowering.math.value import Value
from xlac_sdk.lowering.math.writer import Writer

ROOT_HALF = sqrt(0.5)
# (log(1 + f) - f + f^2/2) / f^3 for 1 + f in [sqrt 1/2, sqrt 2]: error 2^-30
LOG_F32 = (
    0.3333331346511841, -0.25000008940696716, 0.2000211775302887, -0.16667991876602173,
    0.14219577610492706, -0.12405667454004288, 0.11888065934181213, -0.1167517676949501,
    0.06746281683444977,
)  # fmt: skip
# (log((1 + s) / (1 - s)) / s - 2) / s^2 in s^2 for the same range, s = f / (2 + f): error 2^-59
LOG_F64 = (
    0.6666666666666734,
    0.39999999999414726,
    0.28571428742378974,
    0.22222198574008603,
    0.18183564283314227,
    0.15314051685254704,
    0.14795937808054452,
)
# log2(1 + f) / f for the same range: error 2^-28
LOG2_F32 = (
    1.4426950216293335, -0.7213473320007324, 0.4808982312679291, -0.3606966435909271,
    0.2885674238204956, -0.23961743712425232, 0.20460054278373718, -0.19106237590312958,
    0.18617519736289978, -0.10995069146156311,
)  # fmt: skip


def log(m: Writer, x: Value) -> Value:
    """log x = e ln 2 + log(1 + f): 1 ulp."""
    significand, exponent = split(m, x, ROOT_HALF)
    return _special(m, x, _natural(m, significand - 1.0, exponent.cast(x.dtype)), x)


def log1p(m: Writer, x: Value) -> Value:
    """log(1 + x): the significand of 1 + x minus 1 is computed from x itself, which avoids
    cancellation: 1 ulp.

    From 2^25 (2^55) on, 1 + x rounds to x, whose own significand is used.
    """
    f = x.format
    u = x + 1.0
    significand, exponent = split(m, u, ROOT_HALF)
    shrink = (f.pattern(1.0) - (exponent << f.mantissa)).bitcast(f.dtype)  # 2^-e
    scaled = m.fma(shrink, x, shrink - 1.0)
    near = m.select(u < 2.0 ** (f.mantissa + 2), scaled, significand - 1.0)
    y = _special(m, u, _natural(m, near, exponent.cast(x.dtype)), x)
    return m.select(x.eq(0.0), x, y)


def log2(m: Writer, x: Value) -> Value:
    """e + log2(1 + f): 1.5 ulp in f32, 2.5 in f64; exact for powers of two."""
    significand, exponent = split(m, x, ROOT_HALF)
    f, e = significand - 1.0, exponent.cast(x.dtype)
    if x.dtype is DType.F32:
        first, *rest = LOG2_F32
        y = m.fma(f, first, (f * f) * m.polynomial(f, rest)) + e
    else:
        y = m.fma(_natural(m, f, None), LOG2E, e)
    return _special(m, x, y, x)


def _natural(m: Writer, f: Value, e: Value | None) -> Value:
    """log(1 + f) + e ln 2, adding small terms first (in Cephes' order in f32, fdlibm's in f64)."""
    high, low = LN2[f.dtype]
    square = f * f
    half = square * 0.5
    if f.dtype is DType.F32:
        y = (f * square) * m.polynomial(f, LOG_F32)
        y = y if e is None else m.fma(e, low, y)
        y = f + (y - half)
        return y if e is None else m.fma(e, high, y)
    s = f / (f + 2.0)
    z = s * s
    y = s * (half + z * m.polynomial(z, LOG_F64))
    y = y if e is None else m.fma(e, low, y)
    y = f - (half - y)
    return y if e is None else m.fma(e, high, y)


def _special(m: Writer, x: Value, y: Value, large: Value) -> Value:
    """The special cases: infinity and NaN pass through from `large`, 0 gives -infinity, negative
    numbers NaN.
    """
    y = m.select(x < float("inf"), y, large)
    y = m.select(x.eq(0.0), float("-inf"), y)
    return m.select(x < 0.0, float("nan"), y)
