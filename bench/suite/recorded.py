"""A run as one file for the repository, and what tables are made of: `python -m suite.recorded WORK
OUT` writes the runs in WORK as OUT/PROCESSOR_DATE.json, and the report beside it.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from .contenders import AGAIN, NOT_PEERS, OURS
from .rows import CLASSES, rows
from .samples import Process, Samples
from .verdicts import Compared, Verdict, beside, compared, verdicts

Place = tuple[str, int]  # a row and a count of threads


@dataclass
class Recorded:
    """All processes of a run, `kinds` of its rows, and `facts`: the machine, what was skipped."""

    samples: Samples
    kinds: dict[str, str]
    metas: dict[str, dict[str, Any]]
    facts: dict[str, Any]

    @cached_property
    def places(self) -> list[Place]:
        """What was measured, by class, in the order of rows.yaml."""
        order = {name: at for at, name in enumerate(self.kinds)}
        known = [one for one in self._met if one[0] in order]
        return sorted(known, key=lambda one: (one[1], self._rank(one[0]), order[one[0]]))

    @cached_property
    def _met(self) -> dict[Place, set[str]]:
        found: dict[Place, set[str]] = {}
        for process in self.samples.processes.values():
            found.setdefault((process.row, process.threads), set()).add(process.contender)
        return found

    def _rank(self, row: str) -> int:
        return CLASSES.index(self.kinds[row])

    def contenders(self, place: Place) -> list[str]:
        """Who was measured on a row."""
        return sorted(self._met.get(place, ()), key=lambda name: (name not in NOT_PEERS, name))

    def processes(self, place: Place, name: str) -> list[Process]:
        """The samples of a contender on a row."""
        return [p for p in self.samples.of(*place, name) if p.usable]

    def seconds(self, place: Place, name: str) -> float | None:
        """The median over its processes."""
        found = [p.seconds for p in self.processes(place, name)]
        return median(found) if found else None

    def best(self, place: Place) -> str | None:
        """The peer whose median is least, for tables; verdicts choose on halves of the rounds."""
        times = {
            name: seconds
            for name in self.contenders(place)
            if name not in NOT_PEERS and (seconds := self.seconds(place, name)) is not None
        }
        return min(times, key=times.__getitem__, default=None)

    def spread(self, place: Place, name: str) -> float:
        """Between a contender's slowest and quickest process, of their median."""
        found = [p.seconds for p in self.processes(place, name)]
        return (max(found) - min(found)) / median(found)

    def figure(self, place: Place, name: str, key: str) -> float | None:
        """The median of what processes said of their compilation, memory or error; of a compiler
        whose programs are kept only of the processes that found none.
        """
        found = [
            p.ready[key]
            for p in self.samples.of(*place, name)
            if p.ready.get(key) is not None and not p.ready.get("kept")
        ]
        return median(found) if found else None

    @cached_property
    def compared(self) -> dict[Place, Compared]:
        """Our times over the best peer's, of rows with enough processes."""
        found = {}
        for place in self.places:
            peers = [name for name in self.contenders(place) if name not in NOT_PEERS]
            logs = {name: self.samples.logs(*place, name) for name in peers}
            one = compared(self.samples.logs(*place, OURS), logs)
            if one is not None:
                found[place] = one
        return found

    @cached_property
    def verdicts(self) -> dict[Place, Verdict]:
        """Of all rows and counts of threads together."""
        return _named(self.compared)

    @cached_property
    def again(self) -> dict[Place, Verdict]:
        """Of xlac beside itself."""
        found = {}
        for place in self.places:
            logs = (self.samples.logs(*place, name) for name in (AGAIN, OURS))
            one = beside(*logs)
            if one is not None:
                found[place] = one
        return _named(found)

    def failures(self, place: Place, name: str) -> list[str]:
        """Why a contender's processes failed."""
        return [p.failure for p in self.samples.of(*place, name) if p.failure]


def _named(found: dict[Place, Compared]) -> dict[Place, Verdict]:
    names = {f"{row} t{threads}": (row, threads) for row, threads in found}
    judged = verdicts({name: found[place] for name, place in names.items()})
    return {names[one.row]: one for one in judged}


def read(place: Path, models: Path) -> Recorded:
    """The run in a folder of samples."""
    kinds = {row.name: row.kind for row in rows()}
    metas = {}
    for name in kinds:
        file = models / name / "meta.json"
        if file.exists():
            meta = json.loads(file.read_text("utf-8"))
            metas[name] = {k: v for k, v in meta.items() if k not in ("options", "inputs")}
    facts = json.loads((place / "run.json").read_text("utf-8"))
    return Recorded(Samples(place / "samples.jsonl"), kinds, metas, facts)


def compact(run: Recorded) -> dict[str, Any]:
    """Everything that tables are made of: each process's bursts as their medians."""
    said = []
    for process in run.samples.processes.values():
        ready = {k: v for k, v in process.ready.items() if k != "info"}
        bursts = [[b["median"], b["foreign_cores"], b.get("apart", 1.0)] for b in process.bursts]
        place = [process.row, process.threads, process.contender, process.round]
        said.append([*place, ready, process.failure, bursts])
    return {"facts": run.facts, "kinds": run.kinds, "metas": run.metas, "processes": said}


def main() -> None:
    """Records every run in a working folder."""
    from .report import report

    work, out = Path(sys.argv[1]), Path(sys.argv[2])
    for place in sorted((work / "runs").glob("*/run.json")):
        run = read(place.parent, work / "models")
        day = time.strftime("%Y-%m-%d", time.localtime(run.facts["ended"]))
        file = out / f"{place.parent.name}_{day}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        for name, text in (
            (file, json.dumps(compact(run))),
            (file.with_suffix(".md"), "\n".join(report(run))),
        ):  # failures quote paths of this machine
            name.write_text(text.replace(f"{work.resolve()}/", "") + "\n", "utf-8")
        print(file.with_suffix(".md"))


if __name__ == "__main__":
    main()
