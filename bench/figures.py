"""A recorded run as numbers: what the tables and the bars are computed from."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))
from harness.roofline import Ceilings

OURS = "xlac"
XLA = frozenset({"jax", "jax_const"})
INDUCTOR = frozenset({"torch_inductor"})
NOT_PEERS = frozenset({OURS, "xlac_fast"})  # xlac in another setting is reported, but is no peer


class Recorded:
    """A file of `record.py`, or of `peers/run.py` without the ceilings and our own figures."""

    def __init__(self, file: Path) -> None:
        data = json.loads(file.read_text(encoding="utf-8"))
        self.workloads: dict[str, Any] = data["workloads"]
        self.own: dict[str, Any] = data.get("own", {})
        self.ceilings = Ceilings(data["ceilings"]) if data.get("ceilings") else None
        self.threads = sorted(
            {int(t) for entry in self.workloads.values() for t in entry["results"]}
        )

    def runs(self, threads: int) -> dict[str, Any]:
        """What every contender did, by workload."""
        return {
            name: entry["results"][str(threads)]
            for name, entry in self.workloads.items()
            if entry["results"].get(str(threads))
        }

    def figure(self, workload: str, threads: int, key: str = "seconds") -> dict[str, float]:
        """One figure of a workload by contender; those that failed are absent."""
        return figures(
            self.workloads.get(workload, {"results": {}})["results"].get(str(threads), {}), key
        )

    def ratios(
        self, threads: int, key: str = "seconds", over: frozenset[str] = frozenset()
    ) -> dict[str, float]:
        """Ours over the best peer's (or over the best of some), by workload."""
        ratios = {}
        for workload in self.workloads:
            values = self.figure(workload, threads, key)
            theirs = [
                v
                for name, v in values.items()
                if name not in NOT_PEERS and (not over or name in over)
            ]
            if OURS in values and theirs:
                ratios[workload] = values[OURS] / min(theirs)
        return ratios

    def bound(self, workload: str, threads: int, name: str = OURS) -> dict[str, Any] | None:
        """The least time for a workload by the machine's ceilings, of arithmetic and large memory
        as measured beside the contender's bursts.
        """
        if self.ceilings is None:
            return None
        beside = (
            self.figure(workload, threads, key).get(name, 0.0) * 1e9
            for key in ("giga_flops", "giga_bytes")
        )
        return dict(self.ceilings.bound(self.workloads[workload]["meta"], threads, *beside))

    def of_bound(self, workload: str, threads: int, name: str = OURS) -> float | None:
        """How much of what the machine's ceilings allow a contender reached; None: not known."""
        seconds, bound = (
            self.figure(workload, threads).get(name),
            self.bound(workload, threads, name),
        )
        return None if seconds is None or bound is None else float(bound["seconds"]) / seconds


def figures(run: Mapping[str, Any], key: str) -> dict[str, float]:
    """One figure by contender."""
    return {name: one[key] for name, one in run.items() if key in one and "failure" not in one}


def peers(runs: Mapping[str, Any]) -> list[str]:
    """The contenders of a run besides ours, those that are no peers last."""
    return sorted(
        {name for run in runs.values() for name in run} - {OURS},
        key=lambda name: (name in NOT_PEERS, name),
    )


def mean(ratios: Iterable[float]) -> float:
    """The geometric mean; not a number over nothing."""
    logs = [math.log(r) for r in ratios]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan
