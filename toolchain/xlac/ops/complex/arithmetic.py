"""Complex arithmetic on pairs of real tensors, and the table of complex functions.

docs/STABLEHLO.md states their error bounds and their results at infinities and NaN.
"""

from __future__ import annotations

from collections.abc import Callable

from xlac.ops import build
from xlac.ops.complex.exponential import cos_, cosh_, exp, expm1_, logistic, sin_, sinh_, tan, tanh_
from xlac.ops.complex.inverse import acos, acosh, asin, asinh, atan, atanh
from xlac.ops.complex.logarithm import cbrt, log, log1p_, power, rsqrt, sqrt
from xlac.ops.complex.parts import (
    INFINITE,
    Parts,
    absolute,
    both,
    either,
    hypot,
    is_finite,
    is_infinite,
    largest,
    moderate,
    neg,
    scaled,
    signed,
    signed_as,
    where,
)


def add(x: Parts, y: Parts) -> Parts:
    """x + y."""
    return build.add(x[0], y[0]), build.add(x[1], y[1])


def sub(x: Parts, y: Parts) -> Parts:
    """x - y."""
    return build.sub(x[0], y[0]), build.sub(x[1], y[1])


def mul(x: Parts, y: Parts) -> Parts:
    """x * y, by four products."""
    (a, b), (c, d) = x, y
    return build.sub(build.mul(a, c), build.mul(b, d)), build.add(build.mul(a, d), build.mul(b, c))


def square(x: Parts) -> Parts:
    """(a - b) (a + b) + 2 i a b, which avoids cancellation; |a| = |b| gives a real part of 0,
    however large they are.
    """
    a, b = x
    real = build.mul(build.sub(a, b), build.add(a, b))
    equal = both(build.compare(absolute(a), "eq", absolute(b)), is_finite(a))
    return build.select(equal, 0.0, real), build.mul(build.mul(a, b), 2.0)


def div(x: Parts, y: Parts) -> Parts:
    """Smith's algorithm on operands scaled to moderate size: the ratio of the divisor's smaller
    part to its larger.
    """
    over, under = moderate(x), moderate(y)
    # the two scale factors are inverse powers of two
    alike = either(both(over.big, under.big), both(over.small, under.small))
    (a, b), (c, d) = over.x, under.x
    wide = build.compare(absolute(c), "ge", absolute(d))
    large, small = build.select(wide, c, d), build.select(wide, d, c)
    ratio = build.div(small, large)
    below = build.add(large, build.mul(small, ratio))
    first = build.select(wide, build.add(a, build.mul(b, ratio)), build.add(build.mul(a, ratio), b))
    second = build.select(
        wide, build.sub(b, build.mul(a, ratio)), build.sub(build.mul(b, ratio), a)
    )
    quotient = build.div(first, below), build.div(second, below)
    quotient = scaled(quotient, build.select(alike, 1.0, over.back()))
    return _with_infinities(x, y, scaled(quotient, build.select(alike, 1.0, under.back(-1))))


def _with_infinities(x: Parts, y: Parts, quotient: Parts) -> Parts:
    """Special cases of C99's Annex G: division by zero gives infinity, and so does infinity divided
    by a finite number; a finite number divided by infinity gives zero.
    """
    (a, b), (c, d) = x, y
    zero = both(build.compare(c, "eq", 0.0), build.compare(d, "eq", 0.0))
    endless = signed_as(INFINITE, c)
    quotient = where(zero, (build.mul(endless, a), build.mul(endless, b)), quotient)
    above, below = (either(is_infinite(v[0]), is_infinite(v[1])) for v in (x, y))
    whole, divided = (both(is_finite(v[0]), is_finite(v[1])) for v in (x, y))
    grows = both(both(above, divided), build.apply1("not", zero))
    unit_x, unit_y = (
        tuple(signed(build.select(is_infinite(v), build.like(1.0, v), 0.0), v) for v in z)
        for z in (x, y)
    )
    p, q = (build.select(grows, unit_x[k], x[k]) for k in (0, 1))
    r, s = (build.select(grows, y[k], unit_y[k]) for k in (0, 1))
    product = (
        build.add(build.mul(p, r), build.mul(q, s)),
        build.sub(build.mul(q, r), build.mul(p, s)),
    )
    quotient = where(grows, scaled(product, INFINITE), quotient)
    return where(both(whole, below), scaled(product, 0.0), quotient)


def sign(x: Parts) -> Parts:
    """x / |x|; 0 at 0; for an infinite x the direction of its infinite parts."""
    a, b = x
    large = largest(x)
    zero = build.compare(large, "eq", 0.0)
    endless = build.compare(large, "eq", INFINITE)
    p, q = (build.div(v, build.select(zero, 1.0, large)) for v in x)
    size = hypot(p, q)
    safe = build.select(zero, 1.0, size)
    direction = where(zero, x, (build.div(p, safe), build.div(q, safe)))
    alone = build.compare(is_infinite(a), "ne", is_infinite(b))
    units = tuple(build.select(is_infinite(v), signed_as(1.0, v), build.mul(v, 0.0)) for v in x)
    return where(both(endless, alone), (units[0], units[1]), direction)


def atan2(y: Parts, x: Parts) -> Parts:
    """-i log((x + iy) / sqrt(x² + y²)), as XLA has it."""
    above = add(x, (neg(y[1]), y[0]))
    real, imaginary = log(div(above, sqrt(add(square(x), square(y)))))
    return imaginary, neg(real)


FUNCTIONS: dict[str, Callable[[Parts], Parts]] = {
    "negate": lambda x: (neg(x[0]), neg(x[1])), "exponential": exp, "exponential_minus_one": expm1_,
    "log": log, "log_plus_one": log1p_, "sqrt": sqrt, "rsqrt": rsqrt, "cbrt": cbrt, "sine": sin_,
    "cosine": cos_, "tan": tan, "tanh": tanh_, "logistic": logistic, "sign": sign,
}  # fmt: skip
"""StableHLO's functions of one complex number, given as (real, imaginary)."""

CHLO_FUNCTIONS: dict[str, Callable[[Parts], Parts]] = {
    "sinh": sinh_, "cosh": cosh_, "tan": tan, "square": square, "asin": asin, "acos": acos,
    "atan": atan, "asinh": asinh, "acosh": acosh, "atanh": atanh,
}  # fmt: skip
"""CHLO's."""

PAIRS: dict[str, Callable[[Parts, Parts], Parts]] = {
    "add": add,
    "subtract": sub,
    "multiply": mul,
    "atan2": atan2,
    "divide": div,
    "power": power,
}
"""Functions of two complex numbers."""
