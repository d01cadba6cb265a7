"""The gamma function's logarithm and derivatives, and the zeta function."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlac.ir.graph import Node
from xlac.ir.op import UNDEFINED, Sample, declare
from xlac.ops import build
from xlac.ops.scalar.formula import Formula
from xlac.ops.scalar.special import size
from xlac_sdk.dtypes import DType

G = 7.0


LANCZOS = (
    676.520368121885098567009190444019,
    -1259.13921672240287047156078755283,
    771.3234287776530788486528258894,
    -176.61502916214059906584551354,
    12.507343278686904814458936853,
    -0.13857109526572011689554707,
    9.984369578019570859563e-6,
    1.50563273514931155834e-7,
)


LANCZOS_BASE = 0.99999999999980993227684700473478


def lanczos(z: Node) -> tuple[Node, Node, Node, Node]:
    """For z >= -1/2: the series of Lanczos, minus its derivative, z + g + 1/2 and the logarithm of
    that.
    """
    series, slope = build.like(LANCZOS_BASE, z), build.like(0.0, z)
    for number, coefficient in enumerate(LANCZOS, 1):
        below = build.add(z, float(number))
        term = build.div(coefficient, below)
        series, slope = build.add(series, term), build.add(slope, build.div(term, below))
    t = build.add(z, G + 0.5)
    log_t = build.add(build.apply1("log1p", build.div(z, G + 0.5)), math.log(G + 0.5))
    return series, slope, t, log_t


def mirrored(x: Node) -> tuple[Node, Node]:
    """Whether x is below 1/2, and z with gamma(z + 1) for x or for its mirror image 1 - x."""
    low = build.compare(x, "lt", 0.5)
    return low, build.select(low, build.apply1("neg", x), build.sub(x, 1.0))


@declare
class Lgamma(Formula):
    """The logarithm of the magnitude of the gamma function; infinite at 0 and at the negative
    integers.
    """

    mnemonic = "lgamma"
    derivatives = ("t * digamma(x)",)

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        low, z = mirrored(x)
        series, _, t, log_t = lanczos(z)
        grown = build.mul(build.sub(build.add(z, 0.5), build.div(t, log_t)), log_t)
        above = build.add(build.add(grown, math.log(2 * math.pi) / 2), build.log(series))
        a = size(x)
        part = build.sub(a, build.apply1("floor", a))
        part = build.select(build.compare(part, "gt", 0.5), build.sub(1.0, part), part)
        wave = build.log(build.apply1("sin", build.mul(part, math.pi)))
        below = build.sub(build.sub(math.log(math.pi), wave), above)
        below = build.select(build.apply1("isfinite", wave), below, build.apply1("neg", wave))
        return build.select(build.apply1("isinf", x), math.inf, build.select(low, below, above))


@declare
class Digamma(Formula):
    """The derivative of the logarithm of the gamma function; NaN at 0 and negative integers."""

    mnemonic = "digamma"
    derivatives = ("t * polygamma(1.0, x)",)

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        low, z = mirrored(x)
        series, slope, t, log_t = lanczos(z)
        above = build.sub(build.sub(log_t, build.div(slope, series)), build.div(G, t))
        whole = build.apply1("floor", build.add(x, 0.5))
        turn = build.mul(build.sub(x, whole), math.pi)
        cotangent = build.div(build.apply1("cos", turn), build.apply1("sin", turn))
        below = build.sub(above, build.mul(cotangent, math.pi))
        pole = build.apply1(
            "and", build.compare(x, "le", 0.0), build.compare(x, "eq", build.apply1("floor", x))
        )
        return build.select(pole, math.nan, build.select(low, below, above))


ZETA = (
    12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10,
    -2.950130727918164224e12, 1.1646782814350067249e14, -4.5979787224074726105e15,
    1.8152105401943546773e17, -7.1661652561756670113e18,
)  # fmt: skip
"""(2k)! / B(2k), of the Euler-Maclaurin sum."""


@declare
class Zeta(Formula):
    """Hurwitz' zeta function, the sum of (q + k) ** -x over k = 0, 1, …; infinite at x = 1, NaN
    below, and for negative q unless x is whole.
    """

    mnemonic = "zeta"
    operands = ("x", "q")
    derivatives = (UNDEFINED, "-t * (x * zeta(x + 1, q))")
    draws = ("positive",)

    def formula(self, *xs: Node) -> Node:
        """For negative q the terms below 0 are two series of positive ones, up to a sign."""
        x, q = xs
        whole = build.compare(q, "eq", build.apply1("floor", q))
        even = build.compare(build.apply1("rem", x, 2.0), "eq", 0.0)
        down = build.apply1("neg", q)
        below = build.sub(down, build.apply1("floor", down))  # the greatest negative term's size
        low = build.compare(q, "le", 0.0)
        above = build.select(low, build.sub(q, build.apply1("floor", q)), q)
        others = build.sub(hurwitz(x, below), hurwitz(x, build.sub(1.0, q)))
        others = build.select(even, others, build.apply1("neg", others))
        pole = build.select(even, build.like(math.inf, x), math.nan)
        broken = build.compare(x, "ne", build.apply1("floor", x))
        others = build.select(whole, pole, build.select(broken, build.like(math.nan, x), others))
        series = hurwitz(x, above)
        series = build.select(low, build.add(series, others), series)
        series = build.select(build.compare(x, "eq", 1.0), math.inf, series)
        return build.select(build.compare(x, "lt", 1.0), math.nan, series)


def hurwitz(x: Node, q: Node) -> Node:
    """The sum for x > 1 and q > 0, by Euler and Maclaurin from the tenth term."""
    down = build.apply1("neg", x)
    a, total = q, build.apply1("pow", q, down)
    for _ in range(9):
        a = build.add(a, 1.0)
        total = build.add(total, build.apply1("pow", a, down))
    a = build.add(a, 1.0)
    power = build.apply1("pow", a, down)
    series = build.like(1 / ZETA[-1], x)
    for k in reversed(range(len(ZETA) - 1)):
        factor = build.mul(build.add(x, float(2 * k + 1)), build.add(x, float(2 * k + 2)))
        series = build.add(build.mul(build.div(build.div(factor, a), a), series), 1 / ZETA[k])
    rest = build.add(
        build.div(a, build.sub(x, 1.0)), build.add(build.mul(build.div(x, a), series), 0.5)
    )
    more = build.add(total, build.mul(power, rest))
    return build.select(build.compare(power, "eq", 0.0), total, more)


@declare
class Polygamma(Formula):
    """The n-th derivative of digamma at x, for whole n; NaN for any other n."""

    mnemonic = "polygamma"
    operands = ("n", "x")
    derivatives = (UNDEFINED, "t * polygamma(n + 1, x)")
    draws = ("small", "positive")

    def formula(self, *xs: Node) -> Node:
        n, x = xs
        after = build.add(n, 1.0)
        odd = build.compare(build.apply1("rem", n, 2.0), "eq", 1.0)
        value = build.mul(build.exp(build.apply1("lgamma", after)), build.apply1("zeta", after, x))
        value = build.select(odd, value, build.apply1("neg", value))
        value = build.select(build.compare(n, "eq", 0.0), build.apply1("digamma", x), value)
        wrong = build.apply1(
            "or", build.compare(n, "ne", build.apply1("floor", n)), build.compare(n, "lt", 0.0)
        )
        return build.select(wrong, math.nan, value)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        # where most of its values overflow
        return [s for s in super().samples() if s.inputs[0].dtype is not DType.F16]
