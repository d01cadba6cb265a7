"""Sorts of which a part is read: what becomes of them computes the same, ties and NaN included."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from pass_graphs import graph, x

from xlac.ir.graph import Node
from xlac.ir.interpret import interpret
from xlac.ops import build
from xlac.ops.reduction.order import Sort
from xlac.passes.partial_sort import PartialSortPass
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.trace import Trace

COUNT = 9
Slicing = Callable[[Node], Node]


def part(start: int, stop: int, step: int = 1) -> Slicing:
    return lambda found: build.cut(found, 1, start, stop, step)


def sorted_parts(slices: list[Slicing], descending: bool) -> tuple[Node, ...]:
    """Slices of the values, and of the places, of a sort."""
    values = x(2, COUNT)
    found = build.sort((values, build.iota((2, COUNT), 1)), 1, descending)
    return tuple(one(result) for one in slices for result in found)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    ("slices", "kept"),
    [
        ([part(0, 3)], 3),
        ([part(2, 3)], 3),
        ([part(0, 8, 3)], 7),
        ([part(3, -1, -2)], 4),
        ([part(0, 2), part(1, 5)], 5),
        ([part(6, 9)], 3),
        ([part(8, 5, -1)], 3),
        ([part(5, 9, 3), part(8, 9)], 4),
    ],
)
def test_parts(slices: list[Slicing], kept: int, descending: bool) -> None:
    before = graph(*sorted_parts(slices, descending))
    after = PartialSortPass().run(before, Trace(), PassContext())
    sorts = [n.op for n in after.nodes() if isinstance(n.op, Sort)]
    assert [op.kept for op in sorts] == [kept]
    rng = np.random.default_rng(0)
    numbers = np.array([1, 2, 0.0, -0.0, np.nan, -np.nan, np.inf], np.float32)
    for _ in range(20):
        given = {"x": rng.choice(numbers, (2, COUNT))}
        wanted = interpret(before, given)
        found = interpret(after, given)
        for name, array in wanted.items():
            assert np.asarray(found[name]).tobytes() == np.asarray(array).tobytes()


@pytest.mark.parametrize(
    "slices", [[part(0, COUNT)], [part(COUNT - 1, -1, -1)], [part(2, COUNT)], [part(3, 3)]]
)
def test_what_is_read_whole_stays(slices: list[Slicing]) -> None:
    before = graph(*sorted_parts(slices, False))
    assert PartialSortPass().run(before, Trace(), PassContext()) is before


def test_another_reader_keeps_all() -> None:
    values, places = build.sort((x(2, COUNT), build.iota((2, COUNT), 1)), 1)
    before = graph(build.cut(places, 1, 0, 2), build.exp(values))
    assert PartialSortPass().run(before, Trace(), PassContext()) is before
    before = graph(build.cut(values, 1, 0, 2), values)
    assert PartialSortPass().run(before, Trace(), PassContext()) is before
    across = graph(build.cut(values, 0, 0, 1))
    assert PartialSortPass().run(across, Trace(), PassContext()) is across
