"""A lower bound for the number of operations of a spec, computed before any is made: nested blocks
and operations can multiply it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from xlac.spec.elaborate import arithmetic
from xlac.spec.elaborate.arithmetic import Constants
from xlac.spec.report import Fault, Place, Poisoned
from xlac.spec.schema import schema
from xlac.spec.schema.document import SpecEntry

ENOUGH = 1 << 62
DEPTH = 60  # deeper than blocks may be nested
_CALLED = re.compile(r"([^\W\d]\w*)\s*\(")


class Counted:
    """The lower bounds of one spec's blocks and operations.

    Parts that depend on a block's parameters, an index, or a condition count as little as possible;
    the rest is counted when it is made.
    """

    def __init__(
        self,
        blocks: Mapping[str, SpecEntry[schema.BlockSpec]],
        ops: Mapping[str, SpecEntry[schema.OpSpec]],
    ) -> None:
        self.blocks, self.ops = blocks, ops
        self._known: dict[tuple[str, str], int] = {}
        self._using: set[tuple[str, str]] = set()

    def entry(self, spec: Any, place: Place, numbers: Constants | None) -> int:
        """The least number of operations of an entry of a graph."""
        match spec:
            case str():
                return self._called(spec)
            case schema.BlockNode():
                if spec.when is not True or not isinstance(spec.block, str):
                    return 0
                times = 1 if spec.repeat is None else repeated(spec.repeat, numbers, place)
                return min(ENOUGH, times * self._part("block", spec.block))
            case schema.OpNode():
                return (
                    1 + self._part("op", str(spec.op)) if getattr(spec, "when", True) is True else 0
                )
            case schema.ScanNode() | schema.WhileNode():
                return min(ENOUGH, 1 + self._graph(spec.body, place))
        return 1

    def _graph(self, section: Mapping[str, Any], place: Place) -> int:
        return min(ENOUGH, sum(self.entry(spec, place, None) for spec in section.values()))

    def _called(self, text: str) -> int:
        return (
            min(
                ENOUGH,
                sum(self._part("op", name) for name in _CALLED.findall(text) if name in self.ops),
            )
            if self.ops
            else 1
        )

    def _part(self, kind: str, name: str) -> int:
        """Counts a block or one of the user's operations. One that uses itself is reported
        later.
        """
        section: Mapping[str, SpecEntry[Any]] = self.blocks if kind == "block" else self.ops
        key = kind, name
        if key in self._using or len(self._using) > DEPTH or name not in section:
            return 0
        if key not in self._known:
            self._using.add(key)
            spec, place = section[name].spec, section[name].place
            graph = getattr(spec, "graph" if kind == "block" else "expr", None)
            self._known[key] = self._graph(graph, place) if isinstance(graph, dict) else 0
            self._using.discard(key)
        return self._known[key]


def repeated(count: Any, numbers: Constants | None, place: Place) -> int:
    """The repetitions of a block, where they are known here."""
    if type(count) is int:
        return max(1, count)
    if numbers is None:
        return 1
    try:
        times = arithmetic.value(count, numbers, place.at("repeat"))
    except (Fault, Poisoned):
        return 1
    return max(1, times) if type(times) is int else 1
