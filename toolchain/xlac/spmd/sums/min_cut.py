"""The cheapest nodes to cut between the sources of a directed graph and its ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import TypeVar

Vertex = TypeVar("Vertex", bound=Hashable)

NEVER = 1 << 80
"""The cost of a vertex that must not be cut."""


def min_cut(
    after: Mapping[Vertex, Sequence[Vertex]],
    costs: Mapping[Vertex, int],
    sources: Collection[Vertex],
    ends: Collection[Vertex],
) -> tuple[int, set[Vertex]]:
    """What it costs at least to cut all ways from `sources` to `ends` by removing vertices, and
    the vertices that are reached from the sources then: those removed and all before them. Of
    equal cuts it is the one nearest to the sources. `after` has the vertices that follow each.

    Each vertex is an edge from its entry to its exit, whose capacity is its cost: augmenting paths.
    """
    flow = dict.fromkeys(costs, 0)
    between: dict[tuple[Vertex, Vertex], int] = {}
    before: dict[Vertex, list[Vertex]] = {}
    for one, others in after.items():
        for other in others:
            before.setdefault(other, []).append(one)
    total = 0
    while True:
        way = _path(after, before, costs, flow, between, sources, ends)
        if isinstance(way, set):
            return total, {vertex for vertex, entry in way if entry}
        amount = min(
            costs[one] - flow[one]
            if ahead and one == other
            else flow[one]
            if one == other
            else NEVER
            if ahead
            else between[other, one]
            for one, other, ahead in way
        )
        total += amount
        for one, other, ahead in way:
            if one == other:
                flow[one] += amount if ahead else -amount
            elif ahead:
                between[one, other] = between.get((one, other), 0) + amount
            else:
                between[other, one] -= amount
        if amount >= NEVER:
            return total, set()


def _path(
    after: Mapping[Vertex, Sequence[Vertex]],
    before: Mapping[Vertex, Sequence[Vertex]],
    costs: Mapping[Vertex, int],
    flow: Mapping[Vertex, int],
    between: Mapping[tuple[Vertex, Vertex], int],
    sources: Collection[Vertex],
    ends: Collection[Vertex],
) -> list[tuple[Vertex, Vertex, bool]] | set[tuple[Vertex, bool]]:
    """The edges of a shortest way with capacity left, each with whether it goes ahead; or, where
    there is none, the entries (True) and exits (False) that are reached.
    """
    came: dict[tuple[Vertex, bool], tuple[tuple[Vertex, bool], bool] | None] = {
        (source, True): None for source in sources
    }
    waiting = deque(came)
    while waiting:
        at = waiting.popleft()
        vertex, entry = at
        if not entry and vertex in ends:
            return _back(came, at)
        steps: list[tuple[tuple[Vertex, bool], bool]] = []
        if entry:
            if flow[vertex] < costs[vertex]:
                steps.append(((vertex, False), True))
            steps += [
                ((one, False), False)
                for one in before.get(vertex, ())
                if between.get((one, vertex), 0) > 0
            ]
        else:
            steps += [((other, True), True) for other in after.get(vertex, ())]
            if flow[vertex] > 0:
                steps.append(((vertex, True), False))
        for step, ahead in steps:
            if step not in came:
                came[step] = at, ahead
                waiting.append(step)
    return set(came)


def _back(
    came: Mapping[tuple[Vertex, bool], tuple[tuple[Vertex, bool], bool] | None],
    at: tuple[Vertex, bool],
) -> list[tuple[Vertex, Vertex, bool]]:
    """The edges by which a vertex was reached."""
    way: list[tuple[Vertex, Vertex, bool]] = []
    while (step := came[at]) is not None:
        last, ahead = step
        way.append((last[0], at[0], ahead))
        at = last
    return way
