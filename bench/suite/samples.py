"""What a run measured, on disk as soon as it is measured: a line of JSON for each process that
began, each burst and each end. A killed run loses the bursts in flight and nothing else.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

BURSTS = 3  # a process with fewer is no sample
AGAIN = 2  # failures of a contender in one round that are enough
QUIET_CORES = 0.10  # a burst is quiet if other processes used less than this of the cores
APART = 0.85  # and if the cores' rates together were so much of what separate cores give


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """Raises SystemExit if another run measures in this folder: each would disturb the other."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SystemExit(f"another run measures in {place}: end it first") from None
        yield


@dataclass
class Process:
    """One process of a contender on a row: what it said when it was ready, and its bursts."""

    row: str
    threads: int
    contender: str
    round: int
    ready: dict[str, Any] = field(default_factory=dict)
    failure: str = ""
    bursts: list[dict[str, Any]] = field(default_factory=list)

    @property
    def quiet(self) -> list[dict[str, Any]]:
        """The bursts that nothing disturbed."""
        return [burst for burst in self.bursts if is_quiet(burst)]

    @property
    def seconds(self) -> float:
        """The median over its quiet bursts of their median calls; over all if few are quiet."""
        used = self.quiet if len(self.quiet) >= BURSTS else self.bursts
        return float(median(burst["median"] for burst in used))

    @property
    def usable(self) -> bool:
        """Whether it is a sample."""
        return not self.failure and len(self.bursts) >= BURSTS


def is_quiet(burst: dict[str, Any]) -> bool:
    """Whether a burst had the processor to itself."""
    return burst["foreign_cores"] <= QUIET_CORES and burst.get("apart", 1.0) >= APART


class Samples:
    """All processes of a run on one machine, in a file that only grows."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.processes: dict[str, Process] = {}
        self._places: dict[tuple[str, int, str], list[Process]] = {}
        self.costs: dict[tuple[str, int], float] = {}  # of a row and threads: seconds of a round
        self.rows: dict[str, str] = {}  # that could not be made: why
        for said in _lines(file):
            self._take(said)

    def _take(self, said: dict[str, Any]) -> None:
        kind = said.pop("kind")
        if kind == "begun":
            name = said.pop("process")
            process = self.processes[name] = Process(**said)
            place = (process.row, process.threads, process.contender)
            self._places.setdefault(place, []).append(process)
        elif kind == "burst":
            self.processes[said.pop("process")].bursts.append(said)
        elif kind == "failed":
            self.processes[said["process"]].failure = said["failure"]
        elif kind == "round":
            self.costs[said["row"], said["threads"]] = said["seconds"]
        elif kind == "row":
            self.rows[said["row"]] = said["failure"]
        elif kind == "made":
            self.rows.pop(said["row"], None)

    def add(self, kind: str, **said: Any) -> None:
        """Writes a line, and waits until the disk has it."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"kind": kind, **said}) + "\n"
        cut = self.file.exists() and not self.file.read_bytes()[-1:] in (b"", b"\n")
        with self.file.open("a", encoding="utf-8") as out:
            out.write("\n" * cut + line)
            out.flush()
            os.fsync(out.fileno())
        self._take({"kind": kind, **said})

    def of(self, row: str, threads: int, contender: str) -> list[Process]:
        """A contender's processes on a row, the first round first."""
        return sorted(self._places.get((row, threads, contender), ()), key=lambda p: p.round)

    def done(self, row: str, threads: int, contender: str, round_: int) -> bool:
        """Whether a contender has been measured in a round, cannot run the row, or has failed in
        the round twice: one lateness on a busy machine must not leave out the best peer.
        """
        mine = [p for p in self.of(row, threads, contender) if p.round == round_]
        failures = [p.failure for p in mine if p.failure]
        unable = any(failure.startswith("unsupported") for failure in failures)
        return unable or len(failures) >= AGAIN or any(p.usable for p in mine)

    def logs(self, row: str, threads: int, contender: str) -> dict[int, float]:
        """By round: the logarithm of a contender's seconds."""
        usable = (p for p in self.of(row, threads, contender) if p.usable)
        return {p.round: math.log(p.seconds) for p in usable}


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file; one that a kill cut short is none."""
    for line in file.read_text("utf-8").splitlines() if file.exists() else ():
        try:
            said = json.loads(line)
        except ValueError:
            continue
        yield said
