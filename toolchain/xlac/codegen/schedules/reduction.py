"""Schedules of groups around reductions on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Natural, Part, Positive, Schedule, Threads


@dataclass(frozen=True, slots=True)
class KeptValue(Part):
    """A value that a pass computes and a later one reads again: node number `value` of the group,
    kept on the stack, or in the row of output number `output` until that is written.
    """

    value: Natural
    output: Natural | None


@dataclass(frozen=True, slots=True)
class RowReductionSchedule(Schedule):
    """Loops around reductions, as `loops` of merged axes, outermost first. Loop number `vector` is
    in vectors of `lanes`: if it is a reduced one, lanes hold partial results.

    `unroll` are the vectors at once of each pass, which form one long vector if they `join`; if
    lanes are separate results it is one number for all passes. `threads` share the loops that are
    not reduced, of which the vector loop is split into pieces of `chunk` elements, if that is not
    0.
    """

    template: ClassVar[str] = "row_reduction"
    loops: tuple[tuple[int, ...], ...]
    vector: Natural
    lanes: Positive
    unroll: tuple[Positive, ...]
    join: bool
    chunk: Natural
    threads: Threads
    kept: tuple[KeptValue, ...]


@dataclass(frozen=True, slots=True)
class SplitReductionSchedule(Schedule):
    """A reduction of few results in two kernels: reduced loop number `cut` is split into pieces of
    `stretch` iterations, which `threads` share and which have partial results; a second kernel
    combines these, in vectors of `combine_lanes` results. The other fields are as in
    `row_reduction`.
    """

    template: ClassVar[str] = "split_reduction"
    loops: tuple[tuple[int, ...], ...]
    vector: Natural
    lanes: Positive
    unroll: tuple[Positive, ...]
    join: bool
    cut: Natural
    stretch: Positive
    threads: Threads
    combine_lanes: Positive


ReductionSchedule = RowReductionSchedule | SplitReductionSchedule
REDUCTIONS = (RowReductionSchedule, SplitReductionSchedule)
