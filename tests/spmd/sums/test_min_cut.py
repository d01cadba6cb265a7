"""The cheapest cut, beside all cuts of small graphs."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from xlac.spmd.sums.min_cut import NEVER, min_cut


def separates(gone: set[int], after: dict[int, list[int]], first: set[int], ends: set[int]) -> bool:
    """Whether no way leads from `first` to `ends` without the vertices that are gone."""
    reached = first - gone
    waiting = list(reached)
    while waiting:
        for one in after[waiting.pop()]:
            if one not in reached | gone:
                reached.add(one)
                waiting.append(one)
    return not reached & ends


@pytest.mark.parametrize("seed", range(120))
def test_cuts_of_random_graphs(seed: int) -> None:
    random = Random(seed)
    count = random.randint(1, 9)
    after = {n: [m for m in range(n + 1, count) if random.random() < 0.4] for n in range(count)}
    costs = {n: random.randint(1, 6) for n in range(count)}
    sources = {n for n in range(count) if random.random() < 0.3} or {0}
    ends = {n for n in range(count) if random.random() < 0.4}
    every = range(count)
    least = min(
        sum(costs[n] for n in gone)
        for size in range(count + 1)
        for gone in combinations(every, size)
        if separates(set(gone), after, sources, ends)
    )
    total, before = min_cut(after, costs, sources, ends)
    assert total == least
    cut = {n for n in before if n in ends or any(m not in before for m in after[n])}
    assert separates(cut, after, sources, ends) and sum(costs[n] for n in cut) == total


def test_what_must_not_be_cut() -> None:
    """A later vertex is, whatever it costs; of equal cuts the first is taken."""
    after: dict[str, list[str]] = {"a": ["b"], "b": ["c"], "c": []}
    assert min_cut(after, {"a": NEVER, "b": 9, "c": 9}, ["a"], ["c"]) == (9, {"a", "b"})
    assert min_cut(after, {"a": 9, "b": 9, "c": 9}, ["a"], ["c"]) == (9, {"a"})
    assert min_cut(after, {"a": NEVER, "b": 9, "c": 9}, ["a"], [])[0] == 0
    assert min_cut(after, {"a": NEVER, "b": 9, "c": 9}, ["a"], ["a"])[0] >= NEVER
