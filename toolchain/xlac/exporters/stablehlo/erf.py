"""The error function, which StableHLO lacks, by rational functions.

W. J. Cody, "Rational Chebyshev approximations for the error function", Math. Comp. 23 (1969), in
f64.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType

NEAR = (
    (
        3.16112374387056560,
        113.864154151050156,
        377.485237685302021,
        3209.37758913846947,
        0.185777706184603153,
    ),
    (23.6012909523441209, 244.024637934444173, 1282.61652607737228, 2844.23683343917062),
)
MIDDLE = (
    (0.564188496988670089, 8.88314979438837594, 66.1191906371416295, 298.635138197400131,
     881.952221241769090,
     1712.04761263407058, 2051.07837782607147, 1230.33935479799725, 2.15311535474403846e-8),
    (15.7449261107098347, 117.693950891312499, 537.181101862009858, 1621.38957456669019,
     3290.79923573345963,
     4362.61909014324716, 3439.36767414372164, 1230.33935480374942),
)  # fmt: skip
FAR = (
    (
        0.305326634961232344,
        0.360344899949804439,
        0.125781726111229246,
        0.0160837851487422766,
        0.000658749161529837803,
        0.0163153871373020978,
    ),
    (
        2.56852019228982242,
        1.87295284992346725,
        0.527905102951428412,
        0.0605183413124413191,
        0.00233520497626869185,
    ),
)
BORDERS = (0.46875, 4.0)
ROOT = 0.56418958354775628695  # 1 / sqrt(pi)


def erf(x: Node) -> Node:
    """The error function of x, computed in f64 and rounded once."""
    wide = build.cast(x, DType.F64)
    size = build.apply1("abs", wide)
    near = build.mul(wide, ratio(build.mul(wide, wide), *NEAR))
    bounded = build.minimum(build.maximum(size, BORDERS[0]), 30.0)
    fading = build.exp(build.mul(build.mul(bounded, bounded), -1.0))
    middle = build.mul(fading, ratio(bounded, *MIDDLE))
    inverse = build.div(1.0, build.mul(bounded, bounded))
    far = build.mul(
        fading, build.div(build.sub(ROOT, build.mul(inverse, ratio(inverse, *FAR))), bounded)
    )
    rest = build.sub(1.0, build.select(build.compare(size, "le", BORDERS[1]), middle, far))
    signed = build.select(build.compare(wide, "lt", 0.0), build.mul(rest, -1.0), rest)
    joined = build.select(build.compare(size, "le", BORDERS[0]), near, signed)
    return build.cast(build.select(build.compare(wide, "ne", wide), wide, joined), x.type.dtype)


def ratio(x: Node, above: Sequence[float], below: Sequence[float]) -> Node:
    """A quotient of polynomials by Horner's rule. `above` ends with its constant term and its
    leading coefficient; `below` ends with its constant term, and its leading coefficient is 1.
    """
    upper: Node = build.mul(x, above[-1])
    lower: Node = x
    for a, b in zip(above[:-2], below[:-1], strict=True):
        upper, lower = build.mul(build.add(upper, a), x), build.mul(build.add(lower, b), x)
    return build.div(build.add(upper, above[-2]), build.add(lower, below[-1]))
