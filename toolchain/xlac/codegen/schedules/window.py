"""Schedules of windows that move over tensors, on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Positive, Schedule, Threads


@dataclass(frozen=True, slots=True)
class WindowSchedule(Schedule):
    """Pooling and its like. Vectors of `lanes` results along the last axis, `unroll` of them at
    once; `threads` share the loops over the other axes. `written_out`, the positions of the window
    are statements, but for those of axes along which it hangs over an edge; else they are loops.
    """

    template: ClassVar[str] = "window"
    lanes: Positive
    unroll: Positive
    written_out: bool
    threads: Threads


@dataclass(frozen=True, slots=True)
class WindowChoiceSchedule(Schedule):
    """What windows send to the elements that they choose. Where the last axis is one that the window
    does not move along, vectors of `lanes` of its elements, in pieces of `piece` vectors that threads
    may share; else vectors of `lanes` windows, and `piece` is 1. `threads` share the loops over the
    other axes that the window does not move along.
    """

    template: ClassVar[str] = "window_choice"
    lanes: Positive
    piece: Positive
    threads: Threads
