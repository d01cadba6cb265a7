"""Tunes a model: searches its rewrites, where its values are computed and the schedules of its
groups, and keeps what is faster in place.

Groups are measured alone, each in a program of its own, the dearest ones most. What that finds is
then measured in calls of the whole model, in fresh processes, beside the compiler's own schedules;
only what is faster there by KEPT, with 95 % certainty, is recorded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xlac.codegen.schedules.schedule import Schedule, from_data, to_data
from xlac.codegen.schedules.templates import TEMPLATES
from xlac.codegen.schedules.tuned import TunedGroup, TuningRecords
from xlac.debug.tune.placement_tuning import CONFIRMATIONS, KEPT, PlacementTuning
from xlac.debug.tune.process import Asks, WorkerLost, ask_surely
from xlac.debug.tune.race import medians, speedup
from xlac.debug.tune.search import BETTER, MeasuredSchedule, Parts, ScheduleSearch

LEAST = 0.005  # groups that take a smaller share of a call are not tuned
CONFIRMING = 0.3  # the share of the time in which winners are confirmed
PLACING = 0.3  # the share of the time in which values are tried elsewhere
ONE = 0.12  # seconds of one measurement of a schedule
AGAIN = 4  # times as long is the one that confirms it
PATIENCE = 60.0  # seconds in which a schedule must be compiled and measured
PRECISION = frozenset({"dtype"})
"""Fields that change with which precision operands are stored."""


@dataclass(slots=True, eq=False)
class GroupTuning:
    """A group that is tuned: its part of a call, its search, and the seconds spent on it."""

    name: str
    what: str
    share: float
    seconds: float  # of a call, with the compiler's schedules
    search: ScheduleSearch
    spent: float = 0.0
    pairs: list[tuple[float, float]] = field(default_factory=list)  # times in place

    @property
    def urgency(self) -> float:
        """How much of a call's time the group has for each second that was spent on it."""
        return self.share / (self.spent + 0.05)


@dataclass(slots=True, eq=False)
class ModelTuning:
    """Tunes one model within some seconds. `records` are what was found before; `rounding` permits
    schedules that round differently, within the documented error.

    `tell` is given a line for what was found.
    """

    worker: Asks
    records: TuningRecords
    seconds: float
    threads: int = 1
    rounding: bool = False
    tell: Callable[[str], object] = lambda line: None
    clock: Callable[[], float] = time.perf_counter
    lost: int = 0  # measurements in which the process crashed

    def run(self) -> TuningRecords:
        """Searches and confirms; returns the records with what was found: placements of values
        first, then schedules of the groups that they give. Groups whose search ended before are
        left as they are. An interrupt ends the search early.
        """
        placing = PlacementTuning(
            self.worker, self.records, PLACING * self.seconds, self.rounding, self.tell, self.clock
        )
        self.records = placing.run()
        self.lost += placing.lost
        groups = self._groups()
        begun = self.clock()
        whole = self.seconds * (1 - PLACING)
        end = begun + whole * (0.0 if placing.interrupted else 1 - CONFIRMING)
        searching = list(groups)
        try:
            while searching and self.clock() < end:
                group = max(searching, key=lambda one: one.urgency)
                self._step(group)
                if group.search.finished:
                    searching.remove(group)
        except KeyboardInterrupt:
            self.tell("interrupted: what was found so far is confirmed")
            self.worker.close()  # it may be about to answer
        improved = [group for group in groups if self._differs(group)]
        if improved:
            left = max(begun + whole - self.clock(), 1.0)
            self._confirm(improved, left)
        for group in groups:
            if group.search.measured or group.search.finished:
                self.records = self.records.with_group(group.name, self._record(group))
        return self.records

    # ---- searching ---------------------------------------------------------------------------

    def _groups(self) -> list[GroupTuning]:
        placed = self._placed()
        request = {"ask": "groups", "seconds": min(1.0, self.seconds / 20), "placed": placed}
        answer = ask_surely(self.worker, request, 600.0)
        tunings: list[GroupTuning] = []
        for one in answer["groups"]:
            known = self.records.groups.get(one["name"])
            if one["share"] < LEAST or not one["parts"] or (known and known.finished):
                continue
            start = dict(known.parts) if known and known.parts else _parts(one["parts"])
            name = one["name"]
            frozen = PRECISION | ({"threads"} if self.threads == 1 else set())
            others = {
                part: [from_data(each, TEMPLATES) for each in offered]
                for part, offered in one.get("others", {}).items()
            }
            search = ScheduleSearch(start, self._measure(name, one["seconds"]), frozen, others)
            tunings.append(GroupTuning(name, one["what"], one["share"], one["seconds"], search))
        return tunings

    def _differs(self, group: GroupTuning) -> bool:
        known = self.records.groups.get(group.name)
        return group.search.improved or bool(known and known.parts)

    def _step(self, group: GroupTuning) -> None:
        begun, before = self.clock(), group.search.best
        group.search.step()
        group.spent += self.clock() - begun
        if group.search.best is not before:
            self.tell(f"{group.what}: faster alone, after {group.search.measured} schedules")

    def _measure(
        self, name: str, of_call: float
    ) -> Callable[[Parts, Parts, bool], MeasuredSchedule]:
        def measure(best: Parts, other: Parts, again: bool) -> MeasuredSchedule:
            seconds = ONE * (AGAIN if again else 1)
            request = {
                "ask": "race",
                "placed": self._placed(),
                "group": name,
                "best": _data(best),
                "other": _data(other),
                "of_call": of_call,
                "seconds": seconds,
                "rounding": self.rounding,
                "limit": BETTER,
            }
            try:
                answer = self.worker.ask(request, PATIENCE + seconds)
            except WorkerLost:
                self.lost += 1
                return MeasuredSchedule("crashed")
            if answer["why"] != "measured":
                return MeasuredSchedule(answer["why"])
            return MeasuredSchedule("measured", answer["ratio"], _parts(answer["parts"]))

        return measure

    # ---- confirming --------------------------------------------------------------------------

    def _confirm(self, groups: Sequence[GroupTuning], seconds: float) -> None:
        """Measures the best schedules in place, in fresh processes."""
        wanted = {group.name: _data(group.search.best) for group in groups}
        each = max(seconds / CONFIRMATIONS, 0.3)
        request = {"ask": "confirm", "groups": wanted, "seconds": each, "placed": self._placed()}
        for _ in range(CONFIRMATIONS):
            self.worker.close()
            try:
                pairs = ask_surely(self.worker, request, 600.0 + each)["pairs"]
            except WorkerLost:
                self.lost += 1
                continue
            for group in groups:
                group.pairs += [(before, after) for before, after in pairs[group.name]]

    def _record(self, group: GroupTuning) -> TunedGroup:
        """What is kept of a group: its schedules only if they were faster in place."""
        search, unchanged = group.search, 1e6 * group.seconds
        known = self.records.groups.get(group.name)
        measured = search.measured + (known.measured if known else 0)
        if not group.pairs:
            return TunedGroup(
                group.what, unchanged, unchanged, (1.0, 1.0), measured, search.finished
            )
        before, after = (1e6 * seconds for seconds in medians(group.pairs))
        ratio, low, high = speedup(group.pairs)
        kept = low > KEPT
        verdict = "kept" if kept else "not kept"
        self.tell(f"{group.what}: {ratio:.3f} times as fast, {low:.3f} to {high:.3f}: {verdict}")
        return TunedGroup(
            group.what,
            before,
            after if kept else before,
            (low, min(high, 1e6)) if kept else (1.0, 1.0),
            measured,
            search.finished,
            dict(search.best) if kept else {},
        )

    def _placed(self) -> dict[str, str]:
        """The rewrites and placements that were found, as plain data."""
        return {name: value.word for name, value in self.records.values.items() if value.word}


def _parts(data: Mapping[str, Any]) -> dict[str, Schedule]:
    return {part: from_data(one, TEMPLATES) for part, one in data.items()}


def _data(parts: Parts) -> dict[str, Any]:
    return {part: to_data(one) for part, one in parts.items()}
