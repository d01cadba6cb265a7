"""Schedules of groups around reductions on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Natural, Part, Positive, Schedule


@dataclass(frozen=True, slots=True)
class GpuRowReductionSchedule(Schedule):
    """Loops around reductions, as `loops` of merged axes. Vectors of `lanes` are along loop number
    `vector`, a reduced one; `width` threads share a row, and a block of `threads` has the
    corresponding number of rows.

    If `written_out`, loops are unrolled and a thread's vectors stay in registers from pass to pass;
    otherwise loops load `ahead` vectors at once, and blocks store the `kept` values in SHARED
    memory: indices into the inputs of the group, followed by its nodes.
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
    """The same with vectors along a loop that is not reduced, or with single elements if `vector`
    is null. Adjacent threads of a block's `threads` have adjacent results; `width` threads, which
    are not adjacent, share the elements of each.
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
    """The kernel that combines the partial results: `width` threads of a block's `threads` share
    each result.
    """

    width: Positive
    threads: Positive


@dataclass(frozen=True, slots=True)
class GpuSplitReductionSchedule(Schedule):
    """Several blocks compute a result, each from `length` vectors of its elements. The last
    block to finish combines the partial results, or a `combine` kernel does. The other fields are
    as in `gpu_row_reduction` if the loop of `vector` is reduced, else as in `gpu_column_reduction`.
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
