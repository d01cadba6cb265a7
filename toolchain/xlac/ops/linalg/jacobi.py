"""Jacobi rotations of pairs of rows, which diagonalize matrices.

The pairs of a step are disjoint: row i of the upper half with row i of the lower half. After each
step all rows but the first move on by one place around the two halves (a round-robin tournament):
after n - 1 steps each pair of n rows has met once, and all rows are back in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.control import While
from xlac.ops.linalg.matrices import over
from xlac_sdk.dtypes import DType

SWEEPS = 30  # at most; about 10 suffice
Halves = tuple[Node, Node]


def halves(x: Node, axis: int) -> Halves:
    """The first and the second half along an axis of even size."""
    size = x.shape[axis]
    assert isinstance(size, int)
    return build.cut(x, axis, 0, size // 2), build.cut(x, axis, size // 2, size)


def paired_anew(parts: Halves, axis: int) -> Node:
    """The halves joined, with rows moved so that each meets its next partner."""
    top, low = parts
    size = top.shape[axis]
    assert isinstance(size, int)
    first, last = build.cut(top, axis, 0, 1), build.cut(top, axis, size - 1, size)
    if size == 1:
        return build.concat([top, low], axis)
    come = [first, build.cut(low, axis, 0, 1), build.cut(top, axis, 1, size - 1)]
    gone = [build.cut(low, axis, 1, size), last]
    return build.concat([*come, *gone], axis)


def tangents(first: Node, second: Node, between: Node) -> Node:
    """Tangents of the rotation angles that zero the off-diagonal entries `between` of symmetric 2
    by 2 matrices; 0 where these are zero already.
    """
    none = build.compare(between, "eq", 0.0)
    twice = build.mul(build.select(none, 1.0, between), 2.0)
    ratio = build.div(build.sub(second, first), twice)
    size = build.apply1("abs", ratio)
    tangent = build.div(1.0, build.add(size, build.sqrt(build.add(build.mul(ratio, ratio), 1.0))))
    signed = build.select(build.compare(ratio, "lt", 0.0), build.apply1("neg", tangent), tangent)
    return build.select(none, 0.0, signed)


def turns(tangent: Node) -> Halves:
    """Cosines and sines of angles by their tangents."""
    cosine = build.apply1("rsqrt", build.add(build.mul(tangent, tangent), 1.0))
    return cosine, build.mul(cosine, tangent)


def rotated(parts: Halves, turn: Halves, axis: int) -> Halves:
    """The halves along an axis, rotated pair by pair."""
    (top, low), rank = parts, parts[0].type.rank
    other = 2 * rank - 3 - axis
    c, s = (build.back(t, top.shape, (other,)) for t in turn)
    return (
        build.sub(build.mul(c, top), build.mul(s, low)),
        build.add(build.mul(s, top), build.mul(c, low)),
    )


def swept(
    step: Callable[..., list[Node]], first: Sequence[Node], steps: int, left: Callable[..., Node]
) -> Sequence[Node]:
    """Values after as many sweeps of `steps` steps as needed: as long as `left` of them is true. A
    step depends only on the values and its number.
    """
    types = [*(f.type for f in first), Type(DType.I32)]

    def body(*carried: Node) -> list[Node]:
        *values, number = carried
        results = over(steps, step, tuple(values), ())
        after = (
            [build.pick(results, n) for n in range(len(values))] if len(values) > 1 else [results]
        )
        return [*after, build.add(number, 1)]

    def goes_on(*carried: Node) -> Node:
        *values, number = carried
        return build.apply1("and", left(*values), build.compare(number, "lt", SWEEPS))

    loop = While(build.graph("left", types, goes_on), build.graph("sweep", types, body))
    return build.results(Node.of(loop, *first, build.constant(0, DType.I32)))[:-1]
