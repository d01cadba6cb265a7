"""Which cases the default run takes of those that `--all` runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

import pytest

Some = Callable[[Sequence[Any], int], Sequence[Any]]
Row = tuple[object, ...]  # of one list of parameters: its names, and by identity the values

COMBINED = 3  # one combination of so many is run, of tests that nobody marked


def left_out(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """The tests marked `long`, and the cases that are not drawn: of tests marked `sampled(n)` one
    of n is, and of others that combine several lists of parameters one of three, and all that it
    takes for each row of each list to occur.
    """
    tests: dict[str, list[pytest.Item]] = {}
    long = {item for item in items if item.get_closest_marker("long")}
    for item in items:
        if item not in long and hasattr(item, "callspec"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return long | {item for test in tests.values() for item in _not_drawn(test)}


def _not_drawn(test: Sequence[pytest.Item]) -> set[pytest.Item]:
    order = sorted(test, key=lambda item: (crc32(item.name.encode()), item.name))
    rows = {item: _rows(item) for item in order}
    mark = test[0].get_closest_marker("sampled")
    if mark is not None:
        return {*order} - {*drawn(rows, -(-len(order) // mark.args[0]))}
    least = max(len(set(column)) for column in zip(*rows.values(), strict=True))
    if least == len(order):  # one list, and what varies with it
        return set()
    some = {*drawn(rows, max(least, -(-len(order) // COMBINED)))}
    seen = {row for item in some for row in rows[item]}
    for item in order:
        if not seen.issuperset(rows[item]):
            some.add(item)
            seen.update(rows[item])
    return {*order} - some


def drawn(rows: dict[pytest.Item, tuple[Row, ...]], count: int) -> list[pytest.Item]:
    """So many cases: first those that have nothing in common with an earlier one, then those that
    have a row which none before has, then the others.
    """
    found: list[pytest.Item] = []
    seen: set[Row] = set()
    for wanted in (seen.isdisjoint, lambda own: not seen.issuperset(own), lambda own: True):
        for item, own in rows.items():
            if len(found) < count and item not in found and wanted(own):
                found.append(item)
                seen.update(own)
    return found


def _rows(item: pytest.Item) -> tuple[Row, ...]:
    """The row that a case has of each list of parameters; those of fixtures are one."""
    given = dict(item.callspec.params)  # type: ignore[attr-defined]
    rows: list[Row] = []
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs["argnames"]
        names = [one.strip() for one in names.split(",")] if isinstance(names, str) else names
        rows.append((*names, *(id(given.pop(name)) for name in names if name in given)))
    return (*rows, (*given, *map(id, given.values())))
