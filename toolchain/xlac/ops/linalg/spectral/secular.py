"""Roots of secular equations, all at once.

An equation is 1/rho + sum over j of w[j] / (p[j] - x) = 0, with poles p, all different, and weights
w above 0. After each pole, before the next one, it has one root. A root is kept as the nearer of
these two poles, its origin, and its offset from it, so that differences of poles and roots are
exact but for a few roundings, whatever their size. Vectors made of those are orthogonal (Gu and
Eisenstat, A stable and efficient algorithm for the rank-one modification of the symmetric
eigenproblem, 1994). Roots are found by the middle way (Li, Solving secular equations stably and
efficiently, LAPACK working note 89, 1993), kept within brackets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.control.control import While
from xlac.ops.linalg.matrices import epsilon
from xlac_sdk.dtypes import DType

STEPS = 60  # at most; about 10 suffice
CLOSE = 8  # in units of rounding: how far a sum is from 0 at a root

Difference = Callable[[Node, Node], Node]


def across(x: Node) -> Node:
    """(…, n), a number for each root, as (…, poles, roots)."""
    return build.back(x, (*x.shape, x.shape[-1]), (x.type.rank - 1,))


def down(x: Node) -> Node:
    """(…, n), a number for each pole, as (…, poles, roots)."""
    return build.back(x, (*x.shape, x.shape[-1]), (x.type.rank,))


def following(x: Node, last: Node) -> Node:
    """Each of (…, n) replaced by the next, the last by `last` (…, 1)."""
    axis, size = x.type.rank - 1, x.shape[-1]
    assert isinstance(size, int)
    return build.concat([build.cut(x, axis, 1, size), last], axis)


@dataclass(frozen=True, slots=True)
class Secular:
    """Secular equations of a batch: poles (…, n)."""

    poles: Node  # in any order
    ordered: Node  # the same, ascending
    weights: Node  # in the order of `poles`
    leading: Node  # weights in the order of `ordered`
    constant: Node  # 1/rho, (…, 1)
    difference: Difference = build.sub  # of two poles x and y; (x - y) (x + y) where they are roots

    def sums(self, origin: Node, offset: Node) -> tuple[Node, ...]:
        """At x: the sums over poles up to that before a root, over those after it, and both sums'
        derivatives.
        """
        poles, axis = down(self.poles), self.poles.type.rank - 1
        gap = build.sub(self.difference(poles, across(origin)), across(offset))
        before = build.compare(poles, "le", across(self.ordered))
        inverse = build.div(1.0, gap)
        once = build.mul(down(self.weights), inverse)
        twice = build.mul(once, inverse)
        sums = (build.select(before, once, 0.0), build.select(before, 0.0, once))
        slopes = (build.select(before, twice, 0.0), build.select(before, 0.0, twice))
        return tuple(build.reduce(x, "add", axis) for x in (*sums, *slopes))

    def roots(self) -> Roots:
        """All roots, ascending."""
        search = _begun(self)
        return Roots(self, search.origin, _found(self, search))


@dataclass(frozen=True, slots=True)
class Roots:
    """Roots (…, n) of secular equations, ascending: their origins, and how far they are from
    these.
    """

    of: Secular
    origin: Node
    offset: Node

    def gaps(self) -> Node:
        """Poles less roots, (…, poles, roots), exact but for a few roundings."""
        by_pole = self.of.difference(down(self.of.poles), across(self.origin))
        return build.sub(by_pole, across(self.offset))

    def weights(self, place: Node) -> Node:
        """The weights for which the roots found are exact, but for a factor that all share, by
        Löwner's formula: all are products of n positive numbers of which n - 1 are below 1. `place`
        is that of each pole in their order.
        """
        ordered, axis = self.of.ordered, self.of.ordered.type.rank - 1
        size = ordered.shape[-1]
        assert isinstance(size, int)
        last = build.cut(ordered, axis, size - 1, size)
        shape = (*ordered.shape, size)
        number = build.iota(shape, axis + 1, DType.I32)
        later = build.compare(number, "ge", down(place))
        other = build.select(later, across(following(ordered, last)), across(ordered))
        between = self.of.difference(other, down(self.of.poles))
        ending = build.apply1("and", later, build.compare(number, "eq", size - 1))
        between = build.select(ending, 1.0, between)
        ratio = build.div(build.apply1("neg", self.gaps()), between)
        return build.apply1("abs", build.reduce(ratio, "mul", axis + 1))


@dataclass(frozen=True, slots=True)
class _RootSearch:
    """The state of a search for roots, of a batch (…, n)."""

    origin: Node
    near: Node  # the pole before a root, from its origin
    far: Node  # that after it
    low: Node  # the root is above this, from its origin
    high: Node  # and below this
    offset: Node  # the next guess
    done: Node


def _between(offset: Node, low: Node, high: Node) -> Node:
    """A guess within its bracket, or else the middle of that."""
    above, below = build.compare(offset, "gt", low), build.compare(offset, "lt", high)
    middle = build.mul(build.add(low, high), 0.5)
    return build.select(build.apply1("and", above, below), offset, middle)


def _smaller_root(c: Node, a: Node, b: Node) -> Node:
    """The root of c x² - a x + b of smaller magnitude where a is positive, else of (a - …) / 2c."""
    squared = build.sub(build.mul(a, a), build.mul(4.0, build.mul(b, c)))
    size = build.sqrt(build.maximum(squared, 0.0))
    negative = build.compare(a, "le", 0.0)
    above = build.select(negative, build.sub(a, size), build.mul(b, 2.0))
    below = build.select(negative, build.mul(c, 2.0), build.add(a, size))
    return build.div(above, below)


def _begun(of: Secular) -> _RootSearch:
    """Brackets and first guesses: the half of the gap between two poles that has the root is known
    by the sum in the middle, and the terms of these poles are kept exactly, those of others as
    there.
    """
    ordered, axis = of.ordered, of.ordered.type.rank - 1
    size = ordered.shape[-1]
    assert isinstance(size, int)
    total = build.reduce(of.weights, "add", axis, keepdims=True)
    reach = build.div(build.mul(total, 2.0), of.constant)  # of the last root, twice
    last = build.cut(ordered, axis, size - 1, size)
    after = following(ordered, build.add(last, reach))
    gaps = of.difference(following(ordered, last), ordered)
    gaps = build.concat([build.cut(gaps, axis, 0, size - 1), reach], axis) if size > 1 else reach
    half = build.mul(gaps, 0.5)
    first, second, _, _ = of.sums(ordered, half)
    value = build.add(build.add(first, second), of.constant)
    lower = build.compare(value, "ge", 0.0)
    # the last root is sought from its pole, in either half
    ending = build.compare(build.iota(ordered.shape, axis), "eq", size - 1)
    from_near = build.apply1("or", lower, ending)
    origin = build.select(from_near, ordered, after)
    near = build.select(from_near, 0.0, build.apply1("neg", gaps))
    far = build.select(from_near, gaps, 0.0)
    low = build.select(lower, near, build.select(from_near, half, build.apply1("neg", half)))
    high = build.select(lower, half, far)
    nothing = build.full(0.0, last.shape, last.type.dtype)
    begin, end = of.leading, following(of.leading, nothing)
    # the rest of the sum, without the two poles' terms
    c = build.add(value, build.div(build.sub(begin, end), half))
    a = build.add(build.mul(c, build.add(near, far)), build.add(begin, end))
    b = build.add(build.mul(begin, far), build.mul(end, near))
    guess = _between(_smaller_root(c, a, b), low, high)
    done = build.full(False, ordered.shape, DType.BOOL)
    return _RootSearch(origin, near, far, low, high, guess, done)


def _stepped(of: Secular, at: _RootSearch) -> _RootSearch:
    """The search after one more step."""
    offset = at.offset
    first, second, slope, other = of.sums(at.origin, offset)
    value = build.add(build.add(first, second), of.constant)
    terms = build.add(build.sub(second, first), of.constant)  # the sum of magnitudes
    close = build.mul(terms, CLOSE * epsilon(offset.type.dtype))
    small = build.compare(build.apply1("abs", value), "le", close)
    negative = build.compare(value, "lt", 0.0)
    low, high = build.select(negative, offset, at.low), build.select(negative, at.high, offset)
    near, far = build.sub(at.near, offset), build.sub(at.far, offset)
    both = build.mul(near, far)
    a = build.sub(build.mul(build.add(near, far), value), build.mul(both, build.add(slope, other)))
    c = build.sub(value, build.add(build.mul(near, slope), build.mul(far, other)))
    moved = build.add(offset, _smaller_root(c, a, build.mul(both, value)))
    moved = _between(moved, low, high)
    done = build.apply1(
        "or", at.done, build.apply1("or", small, build.compare(moved, "eq", offset))
    )
    moved = build.select(done, offset, moved)
    return _RootSearch(at.origin, at.near, at.far, low, high, moved, done)


def _found(of: Secular, begun: _RootSearch) -> Node:
    """The offsets of roots at which a search ends."""
    names = [f.name for f in fields(_RootSearch)]
    state = [getattr(begun, name) for name in names]
    given = [of.poles, of.ordered, of.weights, of.leading, of.constant]
    first = [*state, *given, build.constant(0, DType.I32)]
    types = [node.type for node in first]

    def goes_on(*carried: Node) -> Node:
        done = carried[names.index("done")]
        left = build.reduce(build.apply1("not", done), "or")
        return build.apply1("and", left, build.compare(carried[-1], "lt", STEPS))

    def body(*carried: Node) -> Sequence[Node]:
        search, given = _RootSearch(*carried[: len(names)]), list(carried[len(names) : -1])
        poles, ordered, weights, leading, constant = given
        again = Secular(poles, ordered, weights, leading, constant, of.difference)
        after = _stepped(again, search)
        return [*(getattr(after, name) for name in names), *given, build.add(carried[-1], 1)]

    loop = While(build.graph("left", types, goes_on), build.graph("step", types, body))
    return build.results(Node.of(loop, *first))[names.index("offset")]
