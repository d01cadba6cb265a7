"""Seconds of the stages of a compilation."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from xlac_sdk.support.limits import telling, told

PASS, KERNEL = "pass ", "kernel "
"""How the names of stages inside others begin."""

PASSES, KERNELS = "passes", "the kernels"
"""The stages that contain them."""

MOST = 20  # kernels that are listed


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
    def watching(self, first: str) -> Iterator[None]:
        """A scope of a compilation whose stages are noted; it begins with the stage `first`. The
        scope around it is told of them too.
        """
        outer = told()

        def begin(stage: str) -> None:
            outer(stage)
            self.begin(stage)

        begin(first)
        try:
            with telling(begin):
                yield
        finally:
            self.end()

    def json(self, passes: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The section `stages`: each with its seconds; the passes are inside one of their own, with
        the seconds that `passes` gives, which leave out what observers of them take.
        """
        stages = self.stages()
        inside = [{"name": one["name"], "seconds": one["seconds"]} for one in passes]
        if PASSES in stages:
            whole = sum(one["seconds"] for one in inside)
            stages[PASSES] = {"name": PASSES, "seconds": whole, "inside": inside}
        return list(stages.values())

    def stages(self) -> dict[str, dict[str, Any]]:
        """The stages by name, in order: their seconds, and what is inside them. Passes and kernels
        are inside stages of their own; of the kernels only the slowest ones are listed.
        """
        stages: dict[str, dict[str, Any]] = {}
        for name, spent in self.entries:
            for prefix, whole in ((PASS, PASSES), (KERNEL, KERNELS)):
                if name.startswith(prefix):
                    outer, inner = whole, name.removeprefix(prefix)
                    break
            else:
                outer, inner = name, ""
            stage = stages.setdefault(outer, {"name": outer, "seconds": 0.0, "inside": []})
            stage["seconds"] += spent
            if inner:
                stage["inside"].append({"name": inner, "seconds": spent})
        if KERNELS in stages:
            kernels = sorted(stages[KERNELS]["inside"], key=lambda one: -one["seconds"])
            rest = sum(one["seconds"] for one in kernels[MOST:])
            more = [{"name": f"{len(kernels) - MOST} more", "seconds": rest}] if rest else []
            stages[KERNELS]["inside"] = kernels[:MOST] + more
        return stages

    def text(self) -> str:
        """The stages as a tree, with their seconds and shares."""
        stages = list(self.stages().values())
        whole = sum(stage["seconds"] for stage in stages)
        rows: list[tuple[str, float]] = []
        for stage in stages:
            rows.append((stage["name"], stage["seconds"]))
            rows += ((f"  {one['name']}", one["seconds"]) for one in stage["inside"])
        rows.append(("in all", whole))
        width = max(len(name) for name, _ in rows)
        return "\n".join(
            f"{name.ljust(width)}  {seconds:9.4f} s  {100 * seconds / max(whole, 1e-12):5.1f} %"
            for name, seconds in rows
        )
