"""Special functions. 16-bit floats are computed in f32 and rounded once."""

from __future__ import annotations

import math

from xlac.frontends.torch.families.math.pointwise import computed, operands, rounded
from xlac.frontends.torch.table import AtenCall, Scalar, aten
from xlac.ir.graph import Node
from xlac.ops import build

SAME = {"lgamma": "lgamma", "erfinv": "erf_inv", "erfc": "erfc", "special_i1e": "bessel_i1e"}


def _same(name: str, mnemonic: str) -> None:
    @aten(name)
    def builder(call: AtenCall, x: Node) -> Node:
        return build.apply1(mnemonic, call.node(x, call.dtype))


for _name, _mnemonic in SAME.items():
    _same(_name, _mnemonic)


@aten("special_zeta", "prims.zeta.default")
def zeta(call: AtenCall, x: Node, q: Node) -> Node:
    """The Hurwitz zeta function, infinite at its poles."""
    return infinite(*operands(call, x, q))


def infinite(x: Node, q: Node) -> Node:
    """zeta(x, q), infinite where q is 0 or a negative whole number, whatever the sign nearby."""
    whole = build.compare(q, "eq", build.apply1("floor", q))
    pole = build.apply1("and", whole, build.compare(q, "le", 0.0))
    pole = build.apply1("and", pole, build.compare(x, "gt", 1.0))
    return build.select(pole, math.inf, build.apply1("zeta", x, q))


@aten("digamma")
def digamma(call: AtenCall, x: Node) -> Node:
    """digamma; at ±0 it is ∓infinity."""
    (a,) = operands(call, x)
    pole = build.div(build.like(-1.0, a), a)
    return build.select(build.compare(a, "eq", 0), pole, build.apply1("digamma", a))


@aten("polygamma")
def polygamma(call: AtenCall, n: int, x: Node) -> Node:
    """The derivative of order `n` of digamma; orders 0 and 1 have their own builders."""
    (a,) = computed(call, x)
    if n == 0:
        return digamma(call, a)
    if n == 1:
        return trigamma(call, a)
    factor = math.gamma(n + 1) if n < 170 else math.inf
    series = build.mul(infinite(build.like(n + 1.0, a), a), factor if n % 2 else -factor)
    return rounded(call, series)


def trigamma(call: AtenCall, x: Node) -> Node:
    """Below 1/2 by reflection: pi^2 / sin^2(pi x) - trigamma(1 - x)."""
    (a,) = computed(call, x)
    mirrored = build.compare(a, "lt", 0.5)
    upper = build.apply1("zeta", build.like(2.0, a), build.select(mirrored, build.sub(1.0, a), a))
    steep = build.div(math.pi, build.apply1("sin", build.mul(a, math.pi)))
    return rounded(call, build.select(mirrored, build.sub(build.mul(steep, steep), upper), upper))


@aten("special_i1", "prims.bessel_i1.default")
def bessel_i1(call: AtenCall, x: Node) -> Node:
    """The modified Bessel function of order 1: exp(|x|) times the scaled function, with the sign of
    x.
    """
    (a,) = computed(call, x)
    return rounded(
        call, build.mul(build.apply1("bessel_i1e", a), build.exp(build.apply1("abs", a)))
    )


@aten("prims.bessel_i1e.default")
def bessel_i1e(call: AtenCall, x: Node) -> Node:
    """The modified Bessel function of order 1, scaled by exp(-|x|)."""
    return build.apply1("bessel_i1e", call.node(x, call.dtype))


@aten("hypot")
def hypot(call: AtenCall, x: Scalar, y: Scalar) -> Node:
    """sqrt(x² + y²), scaled by the larger so that squares do not overflow; infinite if
    either is.
    """
    a, b = (build.apply1("abs", v) for v in computed(call, x, y))
    large, small = build.maximum(a, b), build.minimum(a, b)
    part = build.div(small, build.select(build.compare(large, "eq", 0.0), 1.0, large))
    length = build.mul(large, build.sqrt(build.add(build.mul(part, part), 1.0)))
    endless = build.apply1("or", build.compare(a, "eq", math.inf), build.compare(b, "eq", math.inf))
    return rounded(call, build.select(endless, math.inf, length))


@aten("nextafter")
def nextafter(call: AtenCall, x: Node, y: Node) -> Node:
    """The next representable number from x towards y."""
    return build.apply1("next_after", *operands(call, x, y))


@aten("angle")
def angle(call: AtenCall, x: Node) -> Node:
    """pi for negative numbers, 0 for the others."""
    (a,) = operands(call, x)
    direction = build.select(build.compare(a, "lt", 0), build.like(math.pi, a), build.like(0.0, a))
    return build.select(build.apply1("isnan", a), a, direction)


@aten("gcd", "prims.gcd.default")
def gcd(call: AtenCall, x: Node, y: Node) -> Node:
    """Euclid's algorithm in a loop over all elements, until every remainder is 0."""
    a, b = (build.apply1("abs", v) for v in operands(call, x, y))
    shape = a.type

    def going(left: Node, right: Node) -> Node:
        return build.reduce(build.compare(right, "ne", 0), "or")

    def step(left: Node, right: Node) -> tuple[Node, Node]:
        done = build.compare(right, "eq", 0)
        rest = build.apply1("rem", left, build.select(done, build.like(1, right), right))
        return build.select(done, left, right), build.select(done, right, rest)

    types = (shape, shape)
    divisors = build.apply(
        "while",
        a,
        b,
        cond=build.graph("going", types, going),
        body=build.graph("step", types, step),
    )
    assert isinstance(divisors, tuple)
    return divisors[0]


@aten("xlogy.Tensor")
def xlogy(call: AtenCall, x: Node, y: Node) -> Node:
    """x log(y), which is 0 where x is 0, unless y is NaN."""
    a, b = computed(call, x, y)
    product = build.mul(a, build.log(b))
    result = build.select(build.compare(a, "eq", 0.0), 0.0, product)
    return rounded(call, build.select(build.apply1("isnan", b), b, result))


@aten("logaddexp")
def logaddexp(call: AtenCall, x: Node, y: Node) -> Node:
    """log(exp(x) + exp(y)), shifted by the larger so that it does not overflow."""
    a, b = computed(call, x, y)
    return rounded(call, added(a, b))


def added(a: Node, b: Node) -> Node:
    """log(exp(a) + exp(b)); of equal infinities neither the gap nor its change is a number."""
    same = build.compare(a, "eq", b)
    left, right = (build.select(same, 0.0, v) for v in (a, b))
    gap = build.mul(build.apply1("abs", build.sub(left, right)), -1.0)
    return build.add(build.maximum(a, b), build.apply1("log1p", build.exp(gap)))
