"""What functions of complex numbers are, in the widest floats of this machine: the GNU C library's
for those that C has, whose infinities and NaN are C99's too, and formulas without cancellation for
the others."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Parts = tuple[Array, ...]
Wide = np.longdouble
IS_WIDE = np.finfo(Wide).nmant >= 63


def joined(a: Array, b: Array) -> Array:
    found = np.empty(a.shape, np.clongdouble)
    found.real, found.imag = a, b
    return found


def of_c(function: Callable[[Array], Array]) -> Callable[[Array, Array], Parts]:
    def parts(a: Array, b: Array) -> Parts:
        found = function(joined(a, b))
        return found.real, found.imag

    return parts


def wide(exact: Fraction) -> Any:
    """A fraction as a wide float; far outside of its range 0 or infinity."""
    if not exact:
        return Wide(0)
    power = exact.numerator.bit_length() - exact.denominator.bit_length()
    scaled = exact / Fraction(2) ** power
    first = float(scaled)
    return np.ldexp(Wide(first) + Wide(float(scaled - Fraction(first))), power)


def _expm1(a: Array, b: Array) -> Parts:
    half = np.sin(b / 2)
    return np.expm1(a) * np.cos(b) - 2 * half * half, np.where(b == 0, b, np.exp(a) * np.sin(b))


def _log1p(a: Array, b: Array) -> Parts:
    whole = np.isfinite(a) & np.isfinite(b)
    found = np.full(a.shape, np.nan, Wide)
    for place in np.flatnonzero(whole):
        x, y = Fraction(float(a.flat[place])), Fraction(float(b.flat[place]))
        less = 2 * x + x * x + y * y  # |1 + z|² - 1
        found.flat[place] = np.log1p(wide(less)) if abs(less) < 0.5 else np.log(wide(1 + less))
    return found / 2, np.arctan2(b, 1 + a)


def _rsqrt(a: Array, b: Array) -> Parts:
    root, size = np.sqrt(joined(a, b)), np.hypot(a, b)
    return root.real / size, -root.imag / size


def _cbrt(a: Array, b: Array) -> Parts:
    root, turn = np.cbrt(np.hypot(a, b)), np.arctan2(b, a) / 3
    return root * np.cos(turn), root * np.sin(turn)


def _logistic(a: Array, b: Array) -> Parts:
    """(1 + tanh(z / 2)) / 2 right of 0, and e^z times that of -z left of it."""
    z = joined(np.abs(a), np.where(a < 0, -b, b))
    right = (1 + np.tanh(z / 2)) / 2
    left = np.exp(joined(a, b)) * right
    return np.where(a < 0, left.real, right.real), np.where(a < 0, left.imag, right.imag)


def _sign(a: Array, b: Array) -> Parts:
    size = np.hypot(a, b)
    alone = np.isinf(a) != np.isinf(b)
    found = [np.where(size == 0, v, v / size) for v in (a, b)]
    return tuple(
        np.where(alone, np.where(np.isinf(v), np.sign(v), v * 0), f)
        for v, f in zip((a, b), found, strict=True)
    )


REFERENCES: dict[str, Callable[[Array, Array], Parts]] = {
    "exponential": of_c(np.exp), "log": of_c(np.log), "sqrt": of_c(np.sqrt), "sine": of_c(np.sin),
    "cosine": of_c(np.cos), "tan": of_c(np.tan), "tanh": of_c(np.tanh), "sinh": of_c(np.sinh),
    "cosh": of_c(np.cosh), "asin": of_c(np.arcsin), "acos": of_c(np.arccos),
    "atan": of_c(np.arctan), "asinh": of_c(np.arcsinh), "acosh": of_c(np.arccosh),
    "atanh": of_c(np.arctanh), "abs": lambda a, b: (np.hypot(a, b),), "square": lambda a,
    b: ((a - b) * (a + b), 2 * a * b), "negate": lambda a, b: (-a, -b),
    "exponential_minus_one": _expm1, "log_plus_one": _log1p, "rsqrt": _rsqrt, "cbrt": _cbrt,
    "logistic": _logistic, "sign": _sign,
}  # fmt: skip

OF_C = frozenset(
    (
        "exponential log sqrt sine cosine tan tanh sinh cosh asin acos atan asinh acosh atanh abs "
        "sign"
    ).split()
)
"""Those whose results are known at infinities and NaN too."""


def quotient(a: Array, b: Array, c: Array, d: Array) -> Parts:
    """(a + b i) / (c + d i), of finite numbers whose divisor is not 0."""
    below = c * c + d * d
    return (a * c + b * d) / below, (b * c - a * d) / below


def raised(a: Array, b: Array, c: Array, d: Array) -> tuple[Parts, Array]:
    """(a + b i) to the power c + d i, and the size of the exponent in e^(y log x), with which its
    error grows.
    """
    exponent = joined(c, d) * np.log(joined(a, b))
    found = np.exp(exponent)
    return (found.real, found.imag), np.abs(exponent)
