"""Schedules of dynamic_update_slice on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Positive, Schedule, Threads


@dataclass(frozen=True, slots=True)
class UpdateSchedule(Schedule):
    """dynamic_update_slice. The rows of the slice are split into pieces of `piece` vectors of
    `lanes`; `threads` share the loops over rows and pieces.
    """

    template: ClassVar[str] = "update"
    lanes: Positive
    piece: Positive
    threads: Threads
