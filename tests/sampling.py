"""Which cases the default run takes of those that `--all` runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

import pytest

Some = Callable[[Sequence[Any], int], Sequence[Any]]


def left_out(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """The tests marked `long`, and the cases of tests marked `sampled(n)` that are not drawn: one
    of n is, at least one of each test, by its name.
    """
    cases: dict[str, list[pytest.Item]] = {}
    long = {item for item in items if item.get_closest_marker("long")}
    for item in items:
        if item not in long and item.get_closest_marker("sampled"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return long | {item for test in cases.values() for item in _not_drawn(test)}


def _not_drawn(test: list[pytest.Item]) -> list[pytest.Item]:
    mark = test[0].get_closest_marker("sampled")
    assert mark is not None
    drawn = -(-len(test) // mark.args[0])
    return sorted(test, key=lambda item: (crc32(item.name.encode()), item.name))[drawn:]
