"""Complex exponentials and the trigonometric and hyperbolic functions; infinities as in C99's Annex
G.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp as exp_of

from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.complex.parts import (
    Parts,
    absolute,
    beyond,
    both,
    cos,
    cosh,
    either,
    expm1,
    is_finite,
    is_infinite,
    neg,
    signed_as,
    sin,
    sinh,
    tanh,
    times_i,
    times_minus_i,
)
from xlac_sdk.dtypes import DType

NAN = float("nan")


class Stretched:
    """e^x as a product of three factors, applied one after another: e^x y overflows only if its
    value does, even if e^x alone would overflow.
    """

    def __init__(self, x: Node) -> None:
        step = 700.0 if x.type.dtype is DType.F64 else 80.0
        self.far = build.compare(x, "gt", step)
        farther = build.compare(x, "gt", 2 * step)
        less = build.select(
            farther, build.like(2 * step, x), build.select(self.far, build.like(step, x), 0.0)
        )
        self.near = build.exp(build.sub(x, less))
        self.first, self.second = (
            build.select(one, build.like(exp_of(step), x), 1.0) for one in (self.far, farther)
        )

    def times(self, y: Node) -> Node:
        """e^x y."""
        return self._product(self.near, y)

    def half_or(self, near: Node, y: Node) -> Node:
        """e^x y / 2 where x is so large that cosh and sinh equal e^x / 2; elsewhere `near` * y."""
        return self._product(build.select(self.far, build.mul(self.near, 0.5), near), y)

    def _product(self, near: Node, y: Node) -> Node:
        return build.mul(build.mul(near, build.mul(y, self.first)), self.second)


def polar(size: Stretched, angle: Node, bare: Node) -> Parts:
    """e^x (cos + i sin). An angle of 0 stays 0, whatever e^x is; where x (`bare`) is infinite and
    the angle is not finite, the result is infinity or 0 with unspecified direction.
    """
    flat = build.compare(angle, "eq", 0.0)
    lost = both(is_infinite(bare), beyond(angle))
    gone = both(lost, build.compare(bare, "lt", 0.0))
    across = build.select(gone, 0.0, size.times(sin(angle)))
    return size.times(build.select(lost, 1.0, cos(angle))), build.select(flat, angle, across)


def exp(x: Parts) -> Parts:
    """e to the x."""
    a, b = x
    return polar(Stretched(a), b, a)


def expm1_(x: Parts) -> Parts:
    """The real part is expm1(a) cos(b) - 2 sin²(b/2), which avoids cancellation near 0."""
    a, b = x
    far, across = exp(x)
    half = sin(build.mul(b, 0.5))
    near = build.sub(build.mul(expm1(a), cos(b)), build.mul(build.mul(half, half), 2.0))
    real = build.select(build.compare(a, "gt", 80.0), far, near)
    real = build.select(build.compare(a, "eq", float("-inf")), -1.0, real)
    return build.select(build.compare(b, "eq", 0.0), expm1(a), real), across


def sinh_(x: Parts) -> Parts:
    """sinh(a) cos(b) + i cosh(a) sin(b); for large |a| both hyperbolic functions are e^|a| / 2."""
    return _hyperbolic(x, sinh, cosh)


def cosh_(x: Parts) -> Parts:
    """cosh(a) cos(b) + i sinh(a) sin(b)."""
    return _hyperbolic(x, cosh, sinh)


def _hyperbolic(x: Parts, along: Callable[[Node], Node], across: Callable[[Node], Node]) -> Parts:
    a, b = x
    size = absolute(a)
    wide = Stretched(size)
    lost = beyond(b)

    def times(function: Callable[[Node], Node], other: Node) -> Node:
        product = wide.half_or(function(size), other)
        return build.mul(product, signed_as(1.0, a)) if function is sinh else product

    zero = build.compare(a, "eq", 0.0)
    odd = both(lost, is_infinite(a) if along is cosh else either(is_infinite(a), zero))
    real = times(along, build.select(odd, 1.0, cos(b)))
    imaginary = times(across, sin(b))
    flat = build.compare(b, "eq", 0.0)
    if across is cosh:
        return real, build.select(flat, b, imaginary)
    imaginary = build.select(both(zero, lost), 0.0, imaginary)
    return real, build.select(flat, build.mul(signed_as(1.0, a), b), imaginary)


def sin_(x: Parts) -> Parts:
    """-i sinh(i x)."""
    return times_minus_i(sinh_(times_i(x)))


def cos_(x: Parts) -> Parts:
    """cosh(i x)."""
    return cosh_(times_i(x))


def tanh_(x: Parts) -> Parts:
    """(tanh a (1 + tan² b) + i tan b (1 - tanh² a)) / (1 + tanh² a tan² b), with 1 - tanh² as 1 /
    cosh².
    """
    a, b = x
    t, s, c = tanh(a), sin(b), cos(b)
    far = build.compare(absolute(t), "eq", 1.0)
    below = build.add(build.mul(c, c), build.mul(build.mul(t, t), build.mul(s, s)))
    below = build.select(far, 1.0, below)
    lost = beyond(b)
    flat = build.div(1.0, cosh(a))
    real = build.select(both(far, is_finite(b)), t, build.div(t, below))
    real = build.select(
        either(is_infinite(a), build.compare(a, "eq", 0.0)),
        t,
        build.mul(real, build.select(lost, NAN, 1.0)),
    )
    imaginary = build.div(build.mul(build.mul(build.mul(s, c), flat), flat), below)
    imaginary = build.select(both(is_infinite(a), lost), 0.0, imaginary)
    return real, build.select(build.compare(b, "eq", 0.0), b, imaginary)


def tan(x: Parts) -> Parts:
    """-i tanh(i x)."""
    return times_minus_i(tanh_(times_i(x)))


def logistic(x: Parts) -> Parts:
    """1 / (1 + e^-x), with u = e^-|a|: (1 + u cos b + i u sin b) / ((1 - u)² + 4 u cos² (b/2)) for
    a >= 0; for a < 0 the real part is u (u + cos b) over the same denominator. Near the poles, 1 -
    u and 1 + cos b = 2 cos² (b/2) are computed directly to avoid cancellation.
    """
    a, b = x
    size = absolute(a)
    u, rest = build.exp(neg(size)), neg(expm1(neg(size)))  # u and 1 - u
    lost = both(is_infinite(a), beyond(b))
    half = build.select(lost, 1.0, cos(build.mul(b, 0.5)))
    double = build.mul(build.mul(half, half), 2.0)  # 1 + cos b
    below = build.add(build.mul(rest, rest), build.mul(build.mul(u, double), 2.0))
    right = build.add(rest, build.mul(u, double))
    along = build.select(lost, 1.0, cos(b))
    left = build.mul(
        u,
        build.select(
            build.compare(along, "lt", -0.5), build.sub(double, rest), build.add(u, along)
        ),
    )
    real = build.div(build.select(build.compare(a, "lt", 0.0), left, right), below)
    imaginary = build.div(build.mul(u, build.select(lost, 0.0, sin(b))), below)
    return real, build.select(build.compare(b, "eq", 0.0), b, imaginary)
