"""Schedules of loops that cross the seams of concatenations, pads and selects, on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Positive, Schedule


@dataclass(frozen=True, slots=True)
class SeamsSchedule(Schedule):
    """Loops in which comparisons with the counter decide what is read. A nest of loops is
    partitioned into at most so many `regions`, in each of which fewer comparisons are open. Where
    a vector crosses a seam, loads are `masked` rather than gathers; gathers that stay close are
    consecutive loads that are `shuffled`.
    """

    template: ClassVar[str] = "seams"
    regions: Positive
    masked: bool
    shuffled: bool
