"""Schedules of loops that cross the seams of concatenations, pads and selects, on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Positive, Schedule


@dataclass(frozen=True, slots=True)
class SeamsSchedule(Schedule):
    """Loops in which comparisons with the loop counter select what is read, as in concatenations
    and pads. A nest of loops is partitioned into at most `regions` parts, in which fewer of these
    comparisons remain. Where a vector crosses the boundary of two operands it is read by `masked`
    loads instead of gathers; gathers from a small range become consecutive loads that are
    `shuffled`.
    """

    template: ClassVar[str] = "seams"
    regions: Positive
    masked: bool
    shuffled: bool
