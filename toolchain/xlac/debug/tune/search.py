"""Descent through the schedules of one group, a field at a time, by what measurements say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xlac.codegen.schedules.schedule import Schedule, to_data
from xlac.debug.tune.neighbours import Field, neighbours

Parts = Mapping[str, Schedule]
Others = Mapping[str, Sequence[Schedule]]

TEMPLATE: Field = ("template",)

PRIOR = (
    "template", "vectors", "rows", "unroll", "lanes", "columns", "tiles", "keys", "loops", "vector",
    "piece", "side", "chunk", "blocks", "right", "swap", "hold", "axis", "parts", "join",
    "prefetch",
)  # fmt: skip
"""Fields in the order in which they are tried: those that usually matter most come first."""

BETTER = 0.98
"""A schedule is better if it takes at most this share of the time."""


@dataclass(frozen=True, slots=True)
class MeasuredSchedule:
    """How a schedule did beside the best one: the share of its time, None where it was not
    measured, and its schedules in full.
    """

    why: str  # "measured", "misfit", "same", "rounding", "crashed"
    ratio: float | None = None
    parts: Parts | None = None


Measure = Callable[[Parts, Parts, bool], MeasuredSchedule]
"""Measures the second of two schedules of a group beside the first; longer where it is True."""


class ScheduleSearch:
    """Coordinate descent from the schedules of a group; `step` tries one neighbour of the best.

    `frozen` fields keep their values. `others` are schedules of other templates, by part.
    """

    def __init__(
        self, start: Parts, measure: Measure, frozen: frozenset[str], others: Others | None = None
    ) -> None:
        self.start = self.best = dict(start)
        self.measure, self.frozen, self.others = measure, frozen, others or {}
        self.counts: dict[str, int] = {}
        self.finished = False
        self.tried = {_key(start)}
        self.left = self._candidates(())

    @property
    def measured(self) -> int:
        """How many schedules were measured."""
        return self.counts.get("measured", 0)

    @property
    def improved(self) -> bool:
        """Whether a better schedule than the first was found."""
        return _key(self.best) != _key(self.start)

    def step(self) -> None:
        """Tries one more schedule; a better one becomes the best, and its neighbours are next."""
        found = next(self.left, None)
        if found is None:
            self.finished = True
            return
        field, changed = found
        result = self.measure(self.best, changed, False)
        self.counts[result.why] = self.counts.get(result.why, 0) + 1
        if result.ratio is None or result.ratio > BETTER:
            return
        again = self.measure(self.best, changed, True)  # was it chance?
        if again.ratio is not None and again.ratio <= BETTER and again.parts:
            self.best = dict(again.parts)
            self.tried.add(_key(self.best))
            self.left = self._candidates(field)

    def _candidates(self, first: Field) -> Iterator[tuple[Field, Parts]]:
        """The neighbours of the best schedules that were not tried yet; those of field `first`, as
        a step in one direction is often worth another, come first.
        """
        best = dict(self.best)
        near = [
            ((part, *field), part, other)
            for part, schedule in best.items()
            for field, other in neighbours(schedule)
            if not self.frozen.intersection(field)
        ]
        near += [
            ((part, *TEMPLATE), part, other)
            for part, schedules in self.others.items()
            for other in schedules
            if part in best
        ]
        near.sort(key=lambda found: (found[0] != first, _rank(found[0])))
        for field, part, other in near:
            candidate = {**best, part: other}
            if (key := _key(candidate)) not in self.tried:
                self.tried.add(key)
                yield field, candidate


def _rank(field: Field) -> int:
    return min((PRIOR.index(name) for name in field if name in PRIOR), default=len(PRIOR))


def _key(parts: Parts) -> str:
    return json.dumps({part: to_data(schedule) for part, schedule in parts.items()}, sort_keys=True)
