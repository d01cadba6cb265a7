"""Seconds of the stages of a compilation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from xlac_sdk.support.limits import telling

PASS = "pass "
PASSES = "passes"
"""The stage that contains the passes."""


@dataclass
class StageTimes:
    """Stages with their seconds, in the order in which they begin."""

    entries: list[tuple[str, float]] = field(default_factory=list)
    current: str = ""
    begun: float = 0.0

    def begin(self, stage: str) -> None:
        """Ends the current stage and begins another."""
        self.end()
        self.current, self.begun = stage, time.perf_counter()

    def end(self) -> None:
        """Ends the current stage, if there is one."""
        if self.current:
            self.entries.append((self.current, time.perf_counter() - self.begun))
        self.current = ""

    @contextmanager
    def watching(self, first: str, tell: Callable[[str], object]) -> Iterator[None]:
        """A scope of a compilation whose stages are noted; it begins with the stage `first`.
        `tell` hears of them too.
        """

        def begin(stage: str) -> None:
            tell(stage)
            self.begin(stage)

        begin(first)
        with telling(begin):
            yield
        self.end()

    def json(self, passes: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The section `stages`: each with its seconds; the passes are inside one of their own, with
        the seconds that `passes` gives, which leave out what observers of them take.
        """
        inside = [{"name": one["name"], "seconds": one["seconds"]} for one in passes]
        stages: dict[str, dict[str, Any]] = {}
        for name, spent in self.entries:
            if name.startswith(PASS):
                whole = sum(one["seconds"] for one in inside)
                stages.setdefault(PASSES, {"name": PASSES, "seconds": whole, "inside": inside})
                continue
            stage = stages.setdefault(name, {"name": name, "seconds": 0.0, "inside": []})
            stage["seconds"] += spent
        return list(stages.values())
