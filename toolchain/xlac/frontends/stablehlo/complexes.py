"""Arithmetic of complex numbers, held as two real tensors."""

from __future__ import annotations

from collections.abc import Callable

from xlac.frontends.stablehlo.elements import part_of
from xlac.frontends.stablehlo.values import Tensor
from xlac.ir.graph import Node
from xlac.ops import build

Parts = tuple[Node, Node]


def parts(x: Tensor) -> Parts:
    real, imaginary = x.parts
    return real, imaginary


def _one(mnemonic: str) -> Callable[[Node], Node]:
    return lambda x: build.apply1(mnemonic, x)


neg, sin, cos, sinh, cosh, tanh, log1p, expm1, absolute = (
    _one(name) for name in ("neg", "sin", "cos", "sinh", "cosh", "tanh", "log1p", "expm1", "abs")
)


def hypot(a: Node, b: Node) -> Node:
    """sqrt(a² + b²) without overflow between; infinite when a part is, also beside NaN."""
    a, b = absolute(a), absolute(b)
    large, small = build.maximum(a, b), build.minimum(a, b)
    ratio = build.div(small, build.select(build.compare(large, "eq", 0.0), 1.0, large))
    found = build.mul(large, build.sqrt(build.add(build.mul(ratio, ratio), 1.0)))
    found = build.select(build.compare(large, "eq", small), build.mul(large, 2.0**0.5), found)
    infinite = build.apply1("or", build.compare(a, "eq", float("inf")), build.compare(b, "eq", float("inf")))
    return build.select(infinite, float("inf"), found)


def add(x: Parts, y: Parts) -> Parts:
    return build.add(x[0], y[0]), build.add(x[1], y[1])


def sub(x: Parts, y: Parts) -> Parts:
    return build.sub(x[0], y[0]), build.sub(x[1], y[1])


def mul(x: Parts, y: Parts) -> Parts:
    (a, b), (c, d) = x, y
    return build.sub(build.mul(a, c), build.mul(b, d)), build.add(build.mul(a, d), build.mul(b, c))


def scaled(x: Parts, by: Node | float) -> Parts:
    return build.mul(x[0], by), build.mul(x[1], by)


def div(x: Parts, y: Parts) -> Parts:
    """Smith's method: the smaller part of the divisor is divided by the larger, so that no square overflows."""
    (a, b), (c, d) = x, y
    wide = build.compare(absolute(c), "ge", absolute(d))
    large, small = build.select(wide, c, d), build.select(wide, d, c)
    ratio = build.div(small, large)
    below = build.add(large, build.mul(small, ratio))
    first = build.select(wide, build.add(a, build.mul(b, ratio)), build.add(build.mul(a, ratio), b))
    second = build.select(wide, build.sub(b, build.mul(a, ratio)), build.sub(build.mul(b, ratio), a))
    return _divided_by_zero(x, y, (build.div(first, below), build.div(second, below)))


def _divided_by_zero(x: Parts, y: Parts, found: Parts) -> Parts:
    """C99's Annex G: what is divided by zero is infinite, and finite numbers divided by infinity are zero."""
    (a, b), (c, d) = x, y
    zero = build.apply1("and", build.compare(c, "eq", 0.0), build.compare(d, "eq", 0.0))
    endless = signed(build.like(float("inf"), c), c)
    found = _where(zero, (build.mul(endless, a), build.mul(endless, b)), found)
    finite = build.apply1("and", build.apply1("isfinite", a), build.apply1("isfinite", b))
    infinite = build.apply1("or", build.apply1("isinf", c), build.apply1("isinf", d))
    unit_c, unit_d = (signed(build.select(build.apply1("isinf", v), 1.0, 0.0), v) for v in (c, d))
    product = build.add(build.mul(a, unit_c), build.mul(b, unit_d)), build.sub(build.mul(b, unit_c), build.mul(a, unit_d))
    return _where(build.apply1("and", finite, infinite), scaled(product, 0.0), found)


def signed(size: Node, sign: Node) -> Node:
    """A magnitude with the sign of another number, -0 too."""
    negative = build.compare(build.apply1("atan2", build.like(0.0, sign), sign), "gt", 1.0)
    return build.select(build.apply1("or", negative, build.compare(sign, "lt", 0.0)), neg(size), size)


def _where(condition: Node, x: Parts, y: Parts) -> Parts:
    return build.select(condition, x[0], y[0]), build.select(condition, x[1], y[1])


def polar(size: Node, angle: Node) -> Parts:
    """size * (cos + i sin); an angle of 0 keeps an infinite size from making NaN."""
    flat = build.compare(angle, "eq", 0.0)
    return build.mul(size, cos(angle)), build.select(flat, angle, build.mul(size, sin(angle)))


def exp(x: Parts) -> Parts:
    a, b = x
    return polar(build.exp(a), b)


def expm1_(x: Parts) -> Parts:
    """The real part is expm1(a) cos(b) - 2 sin²(b/2), which does not cancel near 0."""
    a, b = x
    half = sin(build.mul(b, 0.5))
    real = build.sub(build.mul(expm1(a), cos(b)), build.mul(build.mul(half, half), 2.0))
    flat = build.compare(b, "eq", 0.0)
    return build.select(flat, expm1(a), real), build.select(flat, b, build.mul(build.exp(a), sin(b)))


def log(x: Parts) -> Parts:
    """log|x| + i angle; near |x| = 1 the logarithm is that of 1 + (|x|² - 1), from factors that do not cancel."""
    a, b = x
    large, small = build.maximum(absolute(a), absolute(b)), build.minimum(absolute(a), absolute(b))
    near = build.mul(build.add(large, -1.0), build.add(large, 1.0))
    fine = build.mul(log1p(build.add(near, build.mul(small, small))), 0.5)
    close = build.apply1("and", build.compare(large, "gt", 0.5), build.compare(large, "lt", 2.0))
    return build.select(close, fine, build.log(hypot(a, b))), build.apply1("atan2", b, a)


def log1p_(x: Parts) -> Parts:
    """log|1 + x|² = log1p(a (a + 2) + b²) where that is small, else the logarithm of 1 + x."""
    a, b = x
    fine = build.mul(log1p(build.add(build.mul(a, build.add(a, 2.0)), build.mul(b, b))), 0.5)
    whole, angle = log((build.add(a, 1.0), b))
    small = build.apply1("and", build.compare(absolute(a), "lt", 0.5), build.compare(absolute(b), "lt", 0.5))
    return build.select(small, fine, whole), angle


def sqrt(x: Parts) -> Parts:
    """The root with a real part that is not negative, from the half of |x| + |a|, which does not cancel."""
    a, b = x
    size = hypot(build.mul(a, 0.5), build.mul(b, 0.5))
    root = build.sqrt(build.add(size, absolute(build.mul(a, 0.5))))
    safe = build.select(build.compare(root, "eq", 0.0), 1.0, root)
    other = build.select(build.compare(root, "eq", float("inf")), _flat(a, b), build.div(absolute(b), build.mul(safe, 2.0)))
    right = build.compare(a, "ge", 0.0)
    real, imaginary = build.select(right, root, other), signed(build.select(right, other, root), b)
    endless = build.apply1("isinf", b)
    return build.select(endless, float("inf"), real), build.select(endless, b, imaginary)


def _flat(a: Node, b: Node) -> Node:
    """The smaller part of a root when the larger is infinite: 0, or NaN beside NaN."""
    return build.mul(build.select(build.apply1("isinf", b), 0.0, b), 0.0)


def rsqrt(x: Parts) -> Parts:
    a, b = x
    found = div((build.like(1.0, a), build.like(0.0, a)), sqrt(x))
    zero = build.apply1("and", build.compare(a, "eq", 0.0), build.compare(b, "eq", 0.0))
    return _where(zero, (build.like(float("inf"), a), build.like(float("nan"), a)), found)


def tanh_(x: Parts) -> Parts:
    """(tanh a (1 + tan² b) + i tan b (1 - tanh² a)) / (1 + tanh² a tan² b), with 1 - tanh² as 1 / cosh²."""
    a, b = x
    t, s, c = tanh(a), sin(b), cos(b)
    squared = build.mul(t, t)
    below = build.add(build.mul(c, c), build.mul(squared, build.mul(s, s)))
    flat = build.div(1.0, build.mul(cosh(a), cosh(a)))
    return build.div(t, below), build.div(build.mul(build.mul(s, c), flat), below)


def turned(x: Parts) -> Parts:
    """i x."""
    return neg(x[1]), x[0]


def returned(x: Parts) -> Parts:
    """-i x."""
    return x[1], neg(x[0])


def tan(x: Parts) -> Parts:
    """-i tanh(i x)."""
    return returned(tanh_(turned(x)))


def sin_(x: Parts) -> Parts:
    a, b = x
    return build.mul(sin(a), cosh(b)), build.mul(cos(a), sinh(b))


def cos_(x: Parts) -> Parts:
    a, b = x
    return build.mul(cos(a), cosh(b)), neg(build.mul(sin(a), sinh(b)))


def sinh_(x: Parts) -> Parts:
    a, b = x
    return build.mul(sinh(a), cos(b)), build.mul(cosh(a), sin(b))


def cosh_(x: Parts) -> Parts:
    a, b = x
    return build.mul(cosh(a), cos(b)), build.mul(sinh(a), sin(b))


def logistic(x: Parts) -> Parts:
    """1 / (1 + exp(-x))."""
    real, imaginary = exp((neg(x[0]), neg(x[1])))
    return div((build.like(1.0, real), build.like(0.0, real)), (build.add(real, 1.0), imaginary))


def sign(x: Parts) -> Parts:
    """x / |x|, and 0 at 0."""
    size = hypot(*x)
    zero = build.compare(size, "eq", 0.0)
    safe = build.select(zero, 1.0, size)
    return _where(zero, x, (build.div(x[0], safe), build.div(x[1], safe)))


def power(x: Parts, y: Parts) -> Parts:
    """exp(y log x); 0 to the power 0 is 1, and to a power with a positive real part 0."""
    (a, b), (c, d) = x, y
    size, angle = hypot(a, b), build.apply1("atan2", b, a)
    scale = build.apply1("pow", size, c)
    turn = build.mul(c, angle)
    straight = build.compare(d, "eq", 0.0)
    grown = build.select(straight, scale, build.mul(scale, build.exp(neg(build.mul(d, angle)))))
    turn = build.select(straight, turn, build.add(turn, build.mul(d, build.log(size))))
    found = build.mul(grown, cos(turn)), build.mul(grown, sin(turn))
    zero = build.compare(size, "eq", 0.0)
    one = build.apply1("and", zero, build.apply1("and", build.compare(c, "eq", 0.0), straight))
    none = build.apply1("and", zero, build.compare(c, "gt", 0.0))
    found = _where(none, (build.like(0.0, a), build.like(0.0, a)), found)
    return _where(one, (build.like(1.0, a), build.like(0.0, a)), found)


def cbrt(x: Parts) -> Parts:
    """The principal root: a third of the angle."""
    size, angle = hypot(*x), build.apply1("atan2", x[1], x[0])
    root, turn = build.apply1("cbrt", size), build.div(angle, 3.0)
    return build.mul(root, cos(turn)), build.mul(root, sin(turn))


def compare(direction: str, x: Tensor, y: Tensor) -> Node | None:
    """Whether both parts are equal, or one differs."""
    if direction not in ("eq", "ne") or x.element != y.element:
        return None
    real, imaginary = (build.compare(a, direction, b) for a, b in zip(x.parts, y.parts, strict=True))
    return build.apply1("and" if direction == "eq" else "or", real, imaginary)


def mapped(function: Callable[[Parts], Parts]) -> Callable[[Tensor], Tensor]:
    return lambda x: x.each(function(parts(x)))


def _paired(function: Callable[[Parts, Parts], Parts]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, y: x.each(function(parts(x), parts(y)))


UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    name: mapped(function)
    for name, function in (
        ("negate", lambda x: (neg(x[0]), neg(x[1]))), ("exponential", exp), ("exponential_minus_one", expm1_), ("log", log),
        ("log_plus_one", log1p_), ("sqrt", sqrt), ("rsqrt", rsqrt), ("cbrt", cbrt), ("sine", sin_), ("cosine", cos_), ("tan", tan),
        ("tanh", tanh_), ("logistic", logistic), ("sign", sign),
    )
}  # fmt: skip
UNARY["abs"] = lambda x: Tensor(part_of(x.element), (hypot(*parts(x)),))

BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    name: _paired(function)
    for name, function in (("add", add), ("subtract", sub), ("multiply", mul), ("divide", div), ("power", power))
}
