"""The measurement: round after round over all rows, in each round one process of every contender,
bursts in turn, until the budget is spent.

A round ends for all rows before the next begins for any, so that whatever the budget allows is
divided fairly; a run that was stopped goes on where it was. A contender far behind the best is not
started again, nor one that cannot run a row; slow compilers have a share of the budget for what
they have not compiled yet.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from .contenders import NOT_PEERS, Contender
from .cores import Cores
from .rows import Row
from .samples import BURSTS, Samples
from .session import Session

FAR = 1.3  # times the best peer's time: such a peer will not be the best
TRIES = 3  # failures of a contender on a row, after which it is not tried again
SPINNING = 0.02  # seconds after a burst in which a contender's idle threads may still spin
USUAL_COST = 20.0  # seconds of a round of a row that has not been measured yet


@dataclass
class Settings:
    """How a run measures. `kept` is where slow compilers' programs of this processor are; `binary`
    is what measures the machine beside bursts (None: nothing).
    """

    work: Path
    kept: Path
    budget: float  # seconds
    rounds: int = 5
    seconds: float = 0.1  # of a burst
    bursts: int = BURSTS
    most_bursts: int = 5  # where some were disturbed
    jobs: int = 2  # contenders that prepare at once
    compiling: float = 0.2  # of the budget, for what slow compilers have not compiled yet
    timeout: float = 120.0  # seconds to prepare; for slow compilers' first time thrice as many
    binary: Path | None = None
    say: Callable[[str], None] = print


@dataclass
class Run:
    """A run over rows and thread counts; `skipped` is what the budget did not allow."""

    rows: Sequence[Row]
    threads: Sequence[int]
    contenders: Mapping[str, Contender]
    samples: Samples
    settings: Settings
    made: Callable[[Row], Path]  # a row's folder, materialized if it is not there
    skipped: list[str] = field(default_factory=list)
    begin: float = field(default_factory=time.monotonic)
    compiling: float = 0.0  # seconds that slow compilers took

    def measure(self) -> None:
        """All rounds, or as many as the budget allows."""
        rounds = range(self.settings.rounds)
        for number in (*rounds, *rounds):  # at the end again what failed once
            groups = list(self._groups(number))
            for at, (row, threads) in enumerate(groups):
                names = self._wanted(row, threads, number)
                if not names:
                    continue
                cost = self.samples.costs.get((row.name, threads), USUAL_COST)
                if time.monotonic() - self.begin + cost > self.settings.budget:
                    left = [f"{r.name} t{t}" for r, t in groups[at:] if self._wanted(r, t, number)]
                    self._skip(f"round {number}, the budget is spent: {', '.join(left)}")
                    return
                self._group(row, threads, number, names)

    def _skip(self, what: str) -> None:
        if what not in self.skipped:
            self.skipped.append(what)
            self.settings.say(f"not run: {what}")

    def _groups(self, number: int) -> Iterator[tuple[Row, int]]:
        """Rows and threads of a round: a row of every class in turn, in an order of its own."""
        order = random.Random(number)
        classes: dict[str, list[tuple[Row, int]]] = {}
        for row in self.rows:
            classes.setdefault(row.kind, []).extend((row, n) for n in self.threads)
        for members in classes.values():
            order.shuffle(members)
        for place in range(max(map(len, classes.values()), default=0)):
            yield from (members[place] for members in classes.values() if place < len(members))

    def _wanted(self, row: Row, threads: int, number: int) -> list[str]:
        """The contenders that this round still has to measure."""
        if row.name in self.samples.rows:
            return []
        best = self._best(row, threads)
        return [
            name
            for name, contender in self.contenders.items()
            if row.forms & contender.forms
            and not self.samples.done(row.name, threads, name, number)
            and not self._out(row, threads, name, best)
        ]

    def _best(self, row: Row, threads: int) -> float:
        """Seconds of the best peer's quickest process so far."""
        return min(
            (
                process.seconds
                for name in self.contenders
                if name not in NOT_PEERS
                for process in self.samples.of(row.name, threads, name)
                if process.usable
            ),
            default=float("inf"),
        )

    def _out(self, row: Row, threads: int, name: str, best: float) -> bool:
        """Whether a contender takes no further part in a row: it cannot, or is far behind."""
        mine = self.samples.of(row.name, threads, name)
        failures = [process.failure for process in mine if process.failure]
        if any(failure.startswith("unsupported") for failure in failures):
            return True
        if len(failures) >= TRIES:
            return True
        times = [process.seconds for process in mine if process.usable]
        return bool(times) and name not in NOT_PEERS and min(times) > FAR * best

    def _compiled(self, row: Row, threads: int, name: str) -> Path:
        """The mark that a slow compiler's program of a row is kept."""
        return self.settings.kept / f"{row.name}.t{threads}.{name}.done"

    def _group(self, row: Row, threads: int, number: int, names: list[str]) -> None:
        """A round of a row: one process of each contender, all alive, their bursts in turn."""
        start = time.monotonic()
        try:
            folder = self.made(row)
        except Exception as error:  # a row that cannot be made is a result, and the others go on
            self.samples.add("row", row=row.name, failure=f"{type(error).__name__}: {error}"[:600])
            self._skip(f"{row.name} could not be made: {error}")
            return
        meta = json.loads((folder / "meta.json").read_text("utf-8"))
        allowed = [name for name in names if self._may_compile(row, threads, name)]
        if not allowed:
            return
        live = self._started(row, folder, threads, number, allowed)
        if live:
            self._bursts(live, threads, meta)
        spent = time.monotonic() - start
        self.samples.add("round", row=row.name, threads=threads, round=number, seconds=spent)
        times = [
            f"{name} {process[-1].seconds * 1e6:.1f}"
            if (process := self.samples.of(row.name, threads, name)) and process[-1].usable
            else f"{name} –"
            for name in allowed
        ]
        head = f"[{time.strftime('%H:%M:%S')} +{spent:.0f} s] round {number} {row.name} t{threads}"
        self.settings.say(f"{head}, µs: {', '.join(times)}")

    def _may_compile(self, row: Row, threads: int, name: str) -> bool:
        """Whether a slow compiler's program is kept, or its share of the budget is not spent."""
        if not self.contenders[name].slow or self._compiled(row, threads, name).exists():
            return True
        if self.compiling < self.settings.compiling * self.settings.budget:
            return True
        self._skip(f"{row.name} t{threads}, {name}: its share of the budget for compiling is spent")
        return False

    def _started(
        self, row: Row, folder: Path, threads: int, number: int, names: list[str]
    ) -> list[tuple[str, Session]]:
        """The contenders' processes that are ready, each with its number in the samples."""
        cores: SimpleQueue[int] = SimpleQueue()  # of as many as prepare at once
        here = sorted(os.sched_getaffinity(0), reverse=True)
        for job in range(self.settings.jobs):
            cores.put(here[job % len(here)])

        def start(name: str) -> tuple[str, Session]:
            contender, begin = self.contenders[name], time.monotonic()
            cold = contender.slow and not self._compiled(row, threads, name).exists()
            log = self.settings.work / "logs" / f"{row.name}.{name}.t{threads}.log"
            cache = self.settings.kept / "cache" if number and contender.cache else None
            core = cores.get()
            session = Session(contender, folder, threads, log, cache, core)
            session.prepare(self.settings.timeout * (3 if cold else 1))
            cores.put(core)
            if cold:
                self.compiling += (time.monotonic() - begin) / self.settings.jobs
                if not session.failure:
                    mark = self._compiled(row, threads, name)
                    mark.parent.mkdir(parents=True, exist_ok=True)
                    mark.touch()
            if session.ready is not None:
                session.ready["kept"] = (contender.slow and not cold) or bool(cache)
            return name, session

        ready = []
        order = random.sample(names, len(names))
        with ThreadPoolExecutor(self.settings.jobs) as pool:
            for name, session in pool.map(start, order):
                process = f"{row.name}|{threads}|{name}|{number}|{time.time_ns()}"
                said: dict[str, Any] = {"ready": session.ready or {}, "failure": session.failure}
                place = {"row": row.name, "threads": threads, "contender": name, "round": number}
                self.samples.add("begun", process=process, **place, **said)
                if not session.failure:
                    ready.append((process, session))
        return ready

    def _bursts(
        self, live: list[tuple[str, Session]], threads: int, meta: Mapping[str, Any]
    ) -> None:
        """Bursts in turn, each on disk when it ends; more of them where some were disturbed."""
        cores = Cores(self.settings.binary, threads, meta) if self.settings.binary else None
        for turn in range(self.settings.most_bursts):
            for process, session in random.sample(live, len(live)):
                taken = self.samples.processes[process]
                enough = turn >= self.settings.bursts and len(taken.quiet) >= self.settings.bursts
                if session.failure or enough:
                    continue
                burst = _burst(session, self.settings.seconds, cores)
                if burst is None:
                    self.samples.add("failed", process=process, failure=session.failure)
                else:
                    self.samples.add("burst", process=process, **burst)
        if cores:
            cores.close()
        with ThreadPoolExecutor(len(live)) as pool:
            list(pool.map(lambda one: one[1].close(), live))


def _burst(session: Session, seconds: float, cores: Cores | None) -> dict[str, Any] | None:
    """One burst, begun when the cores are apart if more than one is used, with their rates before
    and after it and, of large data, memory's.
    """
    if cores is None:
        return session.measure(seconds)
    before = cores.settle() if session.threads > 1 else cores.look()
    burst = session.measure(seconds)
    time.sleep(SPINNING)
    after = cores.look()
    if burst is not None:
        kind = "together" if session.threads > 1 else "alone"
        burst |= {"giga_flops": max(before[kind], after[kind]), "giga_bytes": cores.bandwidth()}
        if session.threads > 1:
            burst["apart"] = min(cores.apart(before), cores.apart(after))
    return burst
