"""Complex inverse functions, by Kahan's formulas (Branch Cuts for Complex Elementary Functions,
1987), and by their asymptotic forms where these would overflow. Infinities and NaN as in C99's
Annex G.
"""

from __future__ import annotations

from math import pi

from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.complex.logarithm import sqrt
from xlac.ops.complex.parts import (
    INFINITE,
    LN2,
    Parts,
    absolute,
    both,
    hypot,
    log1p,
    neg,
    scaled,
    signed,
    signed_as,
    times_i,
    times_minus_i,
)
from xlac_sdk.dtypes import DType


def _roots(x: Parts) -> tuple[Parts, Parts]:
    """The square roots of 1 - x and of 1 + x."""
    a, b = x
    return sqrt((build.sub(1.0, a), neg(b))), sqrt((build.add(a, 1.0), b))


def _crossed(x: Parts, y: Parts) -> Node:
    """The imaginary part of conj(x) y."""
    return build.sub(build.mul(x[0], y[1]), build.mul(x[1], y[0]))


class _Far:
    """Quantities for arguments so large that 1 + x² rounds to x²."""

    def __init__(self, x: Parts) -> None:
        quarter = scaled(x, 0.25)
        self.size = hypot(*quarter)  # |x / 4|, which does not overflow
        self.here = build.compare(
            self.size, "gt", 2.0 ** (56 if x[0].type.dtype is DType.F64 else 26)
        )
        self.log = build.add(build.log(self.size), 3 * LN2)  # log |2 x|


def asin(x: Parts) -> Parts:
    """The inverse sine; branch cuts lie on the real axis beyond -1 and 1."""
    a, b = x
    low, high = _roots(x)
    far = _Far(x)
    across = build.sub(build.mul(low[0], high[0]), build.mul(low[1], high[1]))
    real = build.apply1("atan2", a, build.select(far.here, absolute(b), across))
    real = build.select(build.compare(a, "eq", 0.0), a, real)
    return real, signed(
        build.select(far.here, far.log, build.apply1("asinh", _crossed(low, high))), b
    )


def acos(x: Parts) -> Parts:
    """The inverse cosine; branch cuts as those of `asin`."""
    a, b = x
    low, high = _roots(x)
    far = _Far(x)
    near = build.mul(build.apply1("atan2", low[0], high[0]), 2.0)
    real = build.select(far.here, build.apply1("atan2", absolute(b), a), near)
    real = build.select(build.compare(a, "eq", 0.0), pi / 2, real)
    return real, signed(
        build.select(far.here, far.log, build.apply1("asinh", _crossed(high, low))), neg(b)
    )


def acosh(x: Parts) -> Parts:
    """The inverse hyperbolic cosine; the branch cut lies on the real axis below 1."""
    a, b = x
    low, high = sqrt((build.sub(a, 1.0), b)), sqrt((build.add(a, 1.0), b))
    far = _Far(x)
    inner = build.add(build.mul(low[0], high[0]), build.mul(low[1], high[1]))
    near = build.mul(build.apply1("atan2", low[1], high[0]), 2.0)
    turn = build.select(far.here, build.apply1("atan2", b, a), near)
    turn = build.select(build.compare(a, "eq", 0.0), signed_as(pi / 2, b), turn)
    return build.select(far.here, far.log, build.apply1("asinh", inner)), turn


def atanh(x: Parts) -> Parts:
    """The real part is computed from |a|, which avoids cancellation in the logarithm's argument;
    for large arguments it is the real part of 1 / x.
    """
    a, b = x
    size, far = absolute(a), _Far(x)
    near, squared = build.sub(1.0, size), build.mul(b, b)
    real = build.mul(
        log1p(build.div(build.mul(size, 4.0), build.add(build.mul(near, near), squared))), 0.25
    )
    pole = both(build.compare(size, "eq", 1.0), build.compare(absolute(b), "lt", 2.0**-30))
    real = build.select(pole, build.mul(build.sub(LN2, build.log(absolute(b))), 0.5), real)
    inverse = build.mul(build.div(build.div(build.mul(size, 0.25), far.size), far.size), 0.25)
    inverse = build.select(build.compare(far.size, "eq", INFINITE), 0.0, inverse)
    real = build.select(far.here, inverse, real)
    angle = build.mul(
        build.apply1(
            "atan2", build.mul(b, 2.0), build.sub(build.mul(near, build.add(size, 1.0)), squared)
        ),
        0.5,
    )
    known = both(far.here, build.compare(b, "eq", b))
    angle = build.select(known, signed_as(pi / 2, b), angle)
    return build.select(build.compare(a, "eq", 0.0), a, signed(real, a)), angle


def asinh(x: Parts) -> Parts:
    """-i asin(i x)."""
    return times_minus_i(asin(times_i(x)))


def atan(x: Parts) -> Parts:
    """-i atanh(i x)."""
    return times_minus_i(atanh(times_i(x)))
