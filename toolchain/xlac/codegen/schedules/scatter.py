"""Schedules of scattered updates on a CPU: in their order, or by their places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Natural, Part, Positive, Schedule, Threads


@dataclass(frozen=True, slots=True)
class Pieces(Part):
    """A loop that is cut into pieces of `piece` elements, which `threads` share."""

    piece: Positive
    threads: Threads


@dataclass(frozen=True, slots=True)
class OrderedScatterSchedule(Schedule):
    """Updates that are combined one after another. Vectors of `lanes` go along the last axis of the
    updates, which is cut into pieces of `piece` vectors: `threads` share the pieces, each with all
    updates. With a piece of 0 it is not cut; then threads share the updates themselves, where no
    two of them meet.
    """

    template: ClassVar[str] = "ordered_scatter"
    lanes: Positive
    piece: Natural
    threads: Threads


@dataclass(frozen=True, slots=True)
class CompensatedScatterSchedule(Schedule):
    """Sums of floats, in the order and by the loops of `ordered_scatter`, with a second array of
    what the roundings of each place's sum have lost. Two kernels `sweep` over both arrays, before
    and after, along vectors of `sweep_lanes`.
    """

    template: ClassVar[str] = "compensated_scatter"
    lanes: Positive
    piece: Natural
    threads: Threads
    sweep_lanes: Positive
    sweep: Pieces


@dataclass(frozen=True, slots=True)
class CountedScatterSchedule(Schedule):
    """Sums of floats, after a counting sort of the updates by the row that they go to: `threads`
    share the rows, and each adds the updates of its own along vectors of `lanes`.
    """

    template: ClassVar[str] = "counted_scatter"
    lanes: Positive
    threads: Threads


@dataclass(frozen=True, slots=True)
class SortedScatterSchedule(Schedule):
    """Sums of floats, after a merge sort of the updates by their places, which a kernel before finds
    (`places`): `threads` share the updates, of which the first of each place adds all, along vectors
    of `lanes`.
    """

    template: ClassVar[str] = "sorted_scatter"
    places: Pieces
    lanes: Positive
    threads: Threads


ScatterSchedule = (
    OrderedScatterSchedule
    | CompensatedScatterSchedule
    | CountedScatterSchedule
    | SortedScatterSchedule
)
SCATTERS = (
    OrderedScatterSchedule,
    CompensatedScatterSchedule,
    CountedScatterSchedule,
    SortedScatterSchedule,
)
