"""Schedules of scattered updates on a CPU: in order, or grouped by position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Natural, Part, Positive, Schedule, Threads


@dataclass(frozen=True, slots=True)
class Pieces(Part):
    """A loop that is split into pieces of `piece` elements, which `threads` share."""

    piece: Positive
    threads: Threads


@dataclass(frozen=True, slots=True)
class OrderedScatterSchedule(Schedule):
    """Updates that are combined one after another. Vectors of `lanes` are along the last axis of
    the updates, which is split into pieces of `piece` vectors: `threads` share the pieces, each
    with all updates. With a piece of 0 it is not split; then threads share the updates themselves,
    if their positions are unique.
    """

    template: ClassVar[str] = "ordered_scatter"
    lanes: Positive
    piece: Natural
    threads: Threads


@dataclass(frozen=True, slots=True)
class CompensatedScatterSchedule(Schedule):
    """Sums of floats, in the order and by the loops of `ordered_scatter`, with a second array of
    the rounding errors of each element's sum. Two kernels `sweep` over both arrays, before and
    after, in vectors of `sweep_lanes`.
    """

    template: ClassVar[str] = "compensated_scatter"
    lanes: Positive
    piece: Natural
    threads: Threads
    sweep_lanes: Positive
    sweep: Pieces


@dataclass(frozen=True, slots=True)
class CountedScatterSchedule(Schedule):
    """Sums of floats, after a counting sort of the updates by the row that they update: `threads`
    share the rows, and each adds the updates of a row in vectors of `lanes`.
    """

    template: ClassVar[str] = "counted_scatter"
    lanes: Positive
    threads: Threads


@dataclass(frozen=True, slots=True)
class SortedScatterSchedule(Schedule):
    """Sums of floats, after a merge sort of the updates by position, which an earlier kernel
    computes (`places`): `threads` share the updates, of which the first of each position adds all,
    in vectors of `lanes`.
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
