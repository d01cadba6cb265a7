"""Schedules of cumulative operations on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Positive, Schedule, Threads


@dataclass(frozen=True, slots=True)
class CumulativeSchedule(Schedule):
    """Cumulative operations. Vectors of `lanes` adjacent lines, each processed from its first
    element to its last; `threads` share the axes before, and pieces of `piece` vectors of lines.
    """

    template: ClassVar[str] = "cumulative"
    lanes: Positive
    piece: Positive
    threads: Threads
