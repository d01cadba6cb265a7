"""Schedules of running combinations on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Positive, Schedule, Threads


@dataclass(frozen=True, slots=True)
class CumulativeSchedule(Schedule):
    """Running sums and their like. Vectors of `lanes` lines side by side, each from its first
    element to its last; `threads` share the axes before, and pieces of `piece` vectors of lines.
    """

    template: ClassVar[str] = "cumulative"
    lanes: Positive
    piece: Positive
    threads: Threads
