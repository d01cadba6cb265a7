"""Schedules of windowed reductions on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Positive, Schedule, Threads


@dataclass(frozen=True, slots=True)
class WindowSchedule(Schedule):
    """Windowed reductions such as pooling. Vectors of `lanes` results along the last axis, `unroll`
    of them at once; `threads` share the loops over the other axes. If `written_out`, the positions
    of the window are unrolled, except along axes in which it extends beyond an edge; otherwise they
    are loops.
    """

    template: ClassVar[str] = "window"
    lanes: Positive
    unroll: Positive
    written_out: bool
    threads: Threads


@dataclass(frozen=True, slots=True)
class WindowChoiceSchedule(Schedule):
    """The gradient of max pooling. If windows do not move along the last axis: vectors of `lanes`
    of its elements, in pieces of `piece` vectors that threads may share; otherwise vectors of
    `lanes` windows, and `piece` is 1. `threads` share the loops over the other axes along which
    windows do not move.
    """

    template: ClassVar[str] = "window_choice"
    lanes: Positive
    piece: Positive
    threads: Threads
