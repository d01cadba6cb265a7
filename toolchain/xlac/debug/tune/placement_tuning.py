"""Tunes which rewrites of a model are made, and where its values are computed: searches, and
confirms all that was found in fresh processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from xlac.codegen.schedules.tuned import TunedChoice, TuningRecords
from xlac.debug.tune.placement_search import Placed, PlacementSearch
from xlac.debug.tune.process import Asks, WorkerLost, ask_surely
from xlac.debug.tune.race import speedup
from xlac.debug.tune.search import BETTER

KEPT = 1.02
"""What was found is kept if it is at least this many times as fast, at the lower end."""

CONFIRMATIONS = 3  # processes that confirm, one after another
CONFIRMING = 0.3  # the share of the time in which they do
LEAST = 0.02  # values whose groups take a smaller share of a call are not tried
ONE = 0.2  # seconds of one measurement
AGAIN = 4  # times as long is the one that confirms it
PATIENCE = 300.0  # seconds in which a model must be compiled and measured


@dataclass(slots=True, eq=False)
class PlacementTuning:
    """Tunes the rewrites and the placements of one model within some seconds: the former first, as
    values depend on them. `records` are what was found before; values and rewrites that they have
    are not tried again.
    """

    worker: Asks
    records: TuningRecords
    seconds: float
    rounding: bool
    tell: Callable[[str], object]
    clock: Callable[[], float]
    lost: int = 0  # measurements in which the process crashed
    interrupted: bool = False

    def run(self) -> TuningRecords:
        """Searches and confirms; returns the records with what was found. Raises XlacError where
        the model cannot be measured.
        """
        search = PlacementSearch((), self._race)
        before, what = dict[str, str](), dict[str, str]()
        spent = 0.0
        for kind in ("rewrites", "choices"):
            choices = self._choices(kind, search.best)
            what |= {choice["name"]: choice["what"] for choice in choices}
            known = self.records.values
            kept = {n: v.word for n, v in known.items() if v.word and n in what}
            before, search.best = before | kept, {**search.best, **kept}
            new = [c for c in choices if c["share"] >= LEAST and c["name"] not in known]
            search.choices = new
            begun = self.clock()
            self._search(search, begun + self.seconds * (1 - CONFIRMING) - spent)
            spent += self.clock() - begun
            if self.interrupted:
                break
        for name, text in search.tried.items():
            self.records = self.records.with_value(name, TunedChoice(text))
        if search.best != before:
            self._confirm(search.best, what, max(self.seconds - spent, 1.0))
        return self.records

    def _search(self, search: PlacementSearch, end: float) -> None:
        try:
            search.run(lambda: self.clock() < end)
        except KeyboardInterrupt:
            self.tell("interrupted: what was found so far is confirmed")
            self.worker.close()  # it may be about to answer
            self.interrupted = True

    def _choices(self, kind: str, best: Placed) -> list[Mapping[str, Any]]:
        seconds = min(1.0, self.seconds / 10)
        request = {"ask": kind, "best": dict(best), "seconds": seconds}
        return list(ask_surely(self.worker, request, 600.0)["choices"])

    def _race(self, best: Placed, other: Placed, again: bool) -> Mapping[str, Any]:
        seconds = ONE * (AGAIN if again else 1)
        request = {
            "ask": "race_placements",
            "best": dict(best),
            "other": dict(other),
            "seconds": seconds,
            "rounding": self.rounding,
            "limit": BETTER,
        }
        try:
            return self.worker.ask(request, PATIENCE + seconds)
        except WorkerLost:
            self.lost += 1
            return {"why": "crashed"}

    def _confirm(self, best: Placed, what: Mapping[str, str], seconds: float) -> None:
        """Measures all placements together, in fresh processes, and keeps them if they are faster
        than fusion's.
        """
        each = max(seconds / CONFIRMATIONS, 0.3)
        request = {"ask": "confirm_placements", "best": dict(best), "seconds": each}
        pairs: list[tuple[float, float]] = []
        for _ in range(CONFIRMATIONS):
            self.worker.close()
            try:
                pairs += [(a, b) for a, b in self.worker.ask(request, 600.0 + each)["pairs"]]
            except WorkerLost:
                self.lost += 1
        ratio, low, high = speedup(pairs) if pairs else (1.0, 1.0, 1.0)
        kept = low > KEPT
        for name, word in best.items():
            found = TunedChoice(what[name], (low, min(high, 1e6)), word)
            self.records = self.records.with_value(name, found if kept else TunedChoice(what[name]))
        values = ", ".join(f"{what[name]} {word}" for name, word in best.items())
        verdict = "kept" if kept else "not kept"
        self.tell(f"{values}: {ratio:.3f} times as fast, {low:.3f} to {high:.3f}: {verdict}")
