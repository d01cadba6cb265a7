"""Schedules of groups around reductions on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Natural, Part, Positive, Schedule


@dataclass(frozen=True, slots=True)
class GpuRowReductionSchedule(Schedule):
    """Loops around reductions, as `loops` of merged axes. Vectors of `lanes` are along loop number
    `vector`, a reduced one; `width` threads share a row, and blocks of `threads` have as many rows
    as that makes.

    `written_out`, a thread's vectors stay in registers from pass to pass; else loops read `ahead`
    of them at once, and blocks keep in SHARED memory what is `kept`: numbers among the inputs of
    the group and then its nodes.
    """

    template: ClassVar[str] = "gpu_row_reduction"
    loops: tuple[tuple[int, ...], ...]
    vector: Natural
    lanes: Positive
    width: Positive
    threads: Positive
    written_out: bool
    ahead: Positive
    kept: tuple[Natural, ...]


@dataclass(frozen=True, slots=True)
class GpuColumnReductionSchedule(Schedule):
    """The same with vectors along a loop that is not reduced, or with single elements where
    `vector` is null. Of a block's `threads`, neighbours have neighbouring results; `width` of them,
    which are not neighbours, share the elements of each.
    """

    template: ClassVar[str] = "gpu_column_reduction"
    loops: tuple[tuple[int, ...], ...]
    vector: Natural | None
    lanes: Positive
    width: Positive
    threads: Positive
    written_out: bool
    ahead: Positive


@dataclass(frozen=True, slots=True)
class CombineKernel(Part):
    """The kernel that combines the parts of each result: `width` threads of a block's `threads`
    share them.
    """

    width: Positive
    threads: Positive


@dataclass(frozen=True, slots=True)
class GpuSplitReductionSchedule(Schedule):
    """Results that several blocks share, each with `length` vectors of their elements. The last
    block to be done combines the parts, or a `combine` kernel. The rest is as where one block has
    all of a result: along rows, where the loop of `vector` is reduced, else along columns.
    """

    template: ClassVar[str] = "gpu_split_reduction"
    loops: tuple[tuple[int, ...], ...]
    vector: Natural | None
    lanes: Positive
    width: Positive
    threads: Positive
    ahead: Positive
    length: Positive
    combine: CombineKernel | None


GpuReductionSchedule = (
    GpuRowReductionSchedule | GpuColumnReductionSchedule | GpuSplitReductionSchedule
)
GPU_REDUCTIONS = (GpuRowReductionSchedule, GpuColumnReductionSchedule, GpuSplitReductionSchedule)
