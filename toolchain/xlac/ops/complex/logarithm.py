"""Logarithms, roots and powers of complex numbers."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.complex.exponential import Stretched, polar
from xlac.ops.complex.parts import (
    INFINITE,
    LN2,
    Parts,
    absolute,
    both,
    cos,
    either,
    exact_sum,
    halves,
    hypot,
    is_infinite,
    log1p,
    moderate,
    neg,
    signed,
    signed_as,
    sin,
    where,
)


def angle(x: Parts) -> Node:
    """The argument, in [-π, π]."""
    return build.apply1("atan2", x[1], x[0])


def log(x: Parts) -> Parts:
    """log|x| + i angle."""
    return _log_of_size(x), angle(x)


def log1p_(x: Parts) -> Parts:
    """The logarithm of 1 + x, which keeps the rounding error of 1 + a."""
    a, b = x
    whole, rest = exact_sum(build.like(1.0, a), a)
    return _log_of_size((whole, b), rest), angle((whole, b))


def _log_of_size(x: Parts, rest: Node | None = None) -> Node:
    """log|x + rest|; near |x| = 1 it is log1p(|x|² - 1) / 2."""
    near = moderate(x)
    far = build.add(
        build.log(hypot(*near.x)), near.chosen(near.steps * LN2, 0.0, -near.steps * LN2)
    )
    a, b = absolute(x[0]), absolute(x[1])
    large, small = build.maximum(a, b), build.minimum(a, b)
    more = [] if rest is None else _more(x[0], rest)
    close = both(build.compare(large, "gt", 0.5), build.compare(large, "lt", 2.0))
    return build.select(close, build.mul(log1p(_square_less_one(large, small, more)), 0.5), far)


def _more(x: Node, rest: Node) -> list[Node]:
    """Terms whose sum is (x + rest)² - x²."""
    (p, q), (r, s) = halves(build.mul(x, 2.0)), halves(rest)
    return [
        build.mul(p, r),
        build.mul(q, r),
        build.mul(p, s),
        build.mul(q, s),
        build.mul(rest, rest),
    ]


def _square_less_one(large: Node, small: Node, more: Sequence[Node]) -> Node:
    """large² + small² - 1 plus `more`, for `large` between 1/2 and 2: products are exact, and sums
    are compensated, so that only the last rounds.
    """
    (p, q), (r, s) = halves(large), halves(small)
    total = build.add(build.mul(p, p), -1.0)
    tail: Node = build.like(0.0, total)
    later = [
        build.mul(build.mul(p, q), 2.0),
        build.mul(build.mul(r, s), 2.0),
        build.mul(q, q),
        build.mul(s, s),
    ]
    for term in (build.mul(r, r), *more, *later):
        total, lost = exact_sum(total, term)
        tail = build.add(tail, lost)
    return build.add(total, tail)


def sqrt(x: Parts) -> Parts:
    """The root with a non-negative real part, from (|x| + |a|) / 2, which avoids cancellation."""
    a, b = x
    near = moderate(x)
    root = build.mul(_root(near.x), near.back(2))
    safe = build.select(build.compare(root, "eq", 0.0), 1.0, root)
    other = build.select(
        build.compare(root, "eq", INFINITE), _flat(b), build.div(absolute(b), build.mul(safe, 2.0))
    )
    right = build.compare(a, "ge", 0.0)
    real, imaginary = build.select(right, root, other), signed(build.select(right, other, root), b)
    endless = is_infinite(b)
    return build.select(endless, INFINITE, real), build.select(endless, b, imaginary)


def _root(x: Parts) -> Node:
    """The larger part of the root of a number of moderate size."""
    half = build.mul(x[0], 0.5), build.mul(x[1], 0.5)
    return build.sqrt(build.add(hypot(*half), absolute(half[0])))


def _flat(b: Node) -> Node:
    """The smaller part of a root whose larger part is infinite: 0, or NaN if `b` is NaN."""
    return build.mul(build.select(is_infinite(b), 0.0, b), 0.0)


def rsqrt(x: Parts) -> Parts:
    """With r, the larger part of the root of x: r / |x| and -b / (2 r |x|), swapped for a < 0."""
    a, b = x
    near = moderate(x)
    size, root = hypot(*near.x), _root(near.x)
    back = near.back(-2)
    large = build.mul(build.div(root, size), back)
    small = build.mul(build.div(absolute(near.x[1]), build.mul(build.mul(root, size), 2.0)), back)
    right = build.compare(a, "ge", 0.0)
    result = build.select(right, large, small), signed(build.select(right, small, large), neg(b))
    zero = both(build.compare(a, "eq", 0.0), build.compare(b, "eq", 0.0))
    result = where(zero, (build.like(INFINITE, a), build.like(float("nan"), a)), result)
    return where(
        either(is_infinite(a), is_infinite(b)), (build.like(0.0, a), signed_as(0.0, neg(b))), result
    )


def cbrt(x: Parts) -> Parts:
    """The principal root: a third of the angle. A small angle is computed as b / (3 |x|^(2/3))."""
    a, b = x
    near = moderate(x)
    root = build.mul(build.apply1("cbrt", hypot(*near.x)), near.back(3))
    turn = build.div(angle(x), 3.0)
    real, imaginary = build.mul(root, cos(turn)), build.mul(root, sin(turn))
    eps = 2.0 ** -(28 if a.type.dtype.bits == 64 else 13)
    small = both(
        build.compare(absolute(b), "lt", build.mul(a, eps)), build.compare(a, "lt", INFINITE)
    )
    return real, build.select(small, build.div(b, build.mul(build.mul(root, root), 3.0)), imaginary)


def power(x: Parts, y: Parts) -> Parts:
    """e^(y log x); 0 to the power 0 is 1, and 0 to a power with a positive real part is 0."""
    (a, b), (c, d) = x, y
    size, turn = _log_of_size(x), angle(x)
    straight = build.compare(d, "eq", 0.0)
    grows = build.mul(c, size)
    exponent = build.select(straight, grows, build.sub(grows, build.mul(d, turn)))
    around = build.mul(c, turn)
    around = build.select(straight, around, build.add(around, build.mul(d, size)))
    result = polar(Stretched(exponent), around, exponent)
    zero = both(build.compare(a, "eq", 0.0), build.compare(b, "eq", 0.0))
    one = both(zero, both(build.compare(c, "eq", 0.0), straight))
    none = both(zero, build.compare(c, "gt", 0.0))
    result = where(none, (build.like(0.0, a), build.like(0.0, a)), result)
    return where(one, (build.like(1.0, a), build.like(0.0, a)), result)
