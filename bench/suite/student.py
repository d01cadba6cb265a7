"""Student's distribution and the functions that moderated variances need, without SciPy: the
suite's environment has NumPy only.
"""

from __future__ import annotations

import math
from functools import lru_cache

STEPS = 200  # of a continued fraction, which ends long before
CLOSE = 1e-10  # relative, of what a bisection finds


def upper_tail(t: float, degrees: float) -> float:
    """The probability that Student's t of so many degrees of freedom exceeds `t`."""
    half = 0.5 * _beta_share(degrees / (degrees + t * t), degrees / 2, 0.5)
    return half if t >= 0 else 1 - half


@lru_cache(maxsize=4096)
def upper_quantile(share: float, degrees: float) -> float:
    """What Student's t of so many degrees of freedom exceeds with the probability `share`."""
    if share > 0.5:
        return -upper_quantile(1 - share, degrees)
    low, high = 0.0, 1.0
    while upper_tail(high, degrees) > share:
        high *= 2
    while high - low > CLOSE * high:
        middle = (low + high) / 2
        low, high = (middle, high) if upper_tail(middle, degrees) > share else (low, middle)
    return high


def digamma(x: float) -> float:
    """The derivative of the logarithm of the gamma function; x > 0."""
    shift = 0.0
    while x < 10:
        shift, x = shift - 1 / x, x + 1
    s = 1 / (x * x)
    return shift + math.log(x) - 0.5 / x - s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s / 240)))


def trigamma(x: float) -> float:
    """The derivative of `digamma`; x > 0."""
    shift = 0.0
    while x < 10:
        shift, x = shift + 1 / (x * x), x + 1
    s = 1 / (x * x)
    return shift + 1 / x + s / 2 + s / x * (1 / 6 - s * (1 / 30 - s * (1 / 42 - s / 30)))


def trigamma_inverse(y: float) -> float:
    """The x > 0 whose trigamma is y > 0."""
    low, high = 1e-8, 1.0
    while trigamma(high) > y:
        high *= 2
    while high - low > CLOSE * high:
        middle = (low + high) / 2
        low, high = (middle, high) if trigamma(middle) > y else (low, middle)
    return high


def _beta_share(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function, by Lentz's evaluation of its continued fraction."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_share(1 - x, b, a)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front += a * math.log(x) + b * math.log1p(-x)
    tiny, c, d = 1e-300, 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    result = d
    for m in range(1, STEPS):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d, c = 1 + numerator * d, 1 + numerator / c
            d = 1 / (d if abs(d) > tiny else tiny)
            c = c if abs(c) > tiny else tiny
            result *= d * c
        if abs(d * c - 1) < 1e-14:
            break
    return math.exp(front) * result / a
