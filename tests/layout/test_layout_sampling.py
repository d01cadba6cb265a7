"""What the default run leaves out: never a row of a list of parameters, of tests that nobody
marked.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sampling import left_out

Lists = dict[str, list[tuple[Any, ...]]]  # by names of parameters, as parametrize takes them


@dataclass(eq=False)
class Drawable:
    """A case of a test, as much of it as the sampling asks for."""

    name: str
    marks: list[pytest.Mark]
    callspec: SimpleNamespace

    @property
    def nodeid(self) -> str:
        return f"test_some.py::{self.name}"

    def iter_markers(self, name: str) -> list[pytest.Mark]:
        return [mark for mark in self.marks if mark.name == name]

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next(iter(self.iter_markers(name)), None)


def cases(lists: Lists, *marks: pytest.MarkDecorator) -> list[Drawable]:
    """Every combination of the rows of the lists."""
    own = [pytest.mark.parametrize(names, rows).mark for names, rows in lists.items()]
    own += [mark.mark for mark in marks]
    made = []
    for rows in product(*lists.values()):
        params = {
            name: value
            for names, row in zip(lists, rows, strict=True)
            for name, value in zip(names.split(", "), row, strict=True)
        }
        label = "-".join(map(str, params.values()))
        made.append(Drawable(f"test_it[{label}]", own, SimpleNamespace(params=params)))
    return made


def remain(made: list[Drawable]) -> list[Drawable]:
    gone = left_out(cast(list[pytest.Item], made))
    return [case for case in made if case not in cast(set[Any], gone)]


def rows_of(made: list[Drawable], names: str) -> set[tuple[Any, ...]]:
    return {tuple(case.callspec.params[name] for name in names.split(", ")) for case in made}


LISTS: Lists = {
    "target": [("cpu",), ("c",), ("reference",)],
    "dtype, size": [("f32", 1), ("f32", 9), ("i8", 1), ("bool", 7)],
    "seed": [(seed,) for seed in range(5)],
}


def test_of_combinations_a_third_is_run_and_every_row() -> None:
    made = cases(LISTS)
    some = remain(made)
    assert len(made) == 60 and len(some) == 20
    for names, rows in LISTS.items():
        assert rows_of(some, names) == set(rows)


def test_every_row_of_a_long_list_is_run() -> None:
    made = cases({"name": [(f"n{number}",) for number in range(40)], "twice": [(False,), (True,)]})
    some = remain(made)
    assert 40 <= len(some) <= 41
    assert rows_of(some, "name") == rows_of(made, "name")
    assert rows_of(some, "twice") == {(False,), (True,)}


@pytest.mark.parametrize("names", LISTS)
def test_one_list_is_run_whole(names: str) -> None:
    made = cases({names: LISTS[names]})
    assert remain(made) == made


@pytest.mark.parametrize("one_of", [1, 4, 12, 100])
def test_of_what_is_marked_one_of_so_many_is_run(one_of: int) -> None:
    some = remain(cases(LISTS, pytest.mark.sampled(one_of)))
    assert len(some) == -(-60 // one_of)
    if len(some) >= 15:  # those that differ from each other are drawn before others
        assert all(rows_of(some, names) == set(rows) for names, rows in LISTS.items())
    if 2 <= len(some) <= 3:
        assert len(rows_of(some, "target")) == len(some)


def test_the_same_are_drawn_in_every_process() -> None:
    chosen = [[case.name for case in remain(cases(LISTS))] for _ in range(2)]
    assert chosen[0] == chosen[1]


def test_what_is_long_is_run_with_all_alone() -> None:
    made = cases({"seed": [(0,), (1,)]}, pytest.mark.long)
    assert not remain(made)
