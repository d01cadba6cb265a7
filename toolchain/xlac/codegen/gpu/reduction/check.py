"""Validates schedules of groups around reductions on a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.codegen.core.access_analysis import Run, merged
from xlac.codegen.core.kinds.reduction import ReductionValues
from xlac.codegen.core.summation import BLOCK
from xlac.codegen.gpu.core.access_width import check_lanes
from xlac.codegen.gpu.core.grid import check_shared, check_threads
from xlac.codegen.gpu.reduction import arrival_counter
from xlac.codegen.gpu.reduction.choose import splits
from xlac.codegen.gpu.reduction.row_cache import keepable
from xlac.codegen.gpu.reduction.row_space import RowSpace
from xlac.codegen.schedules.gpu.reduction import (
    GpuColumnReductionSchedule,
    GpuReductionSchedule,
    GpuRowReductionSchedule,
    GpuSplitReductionSchedule,
)
from xlac.codegen.schedules.schedule import Misfit, Path
from xlac.ir.dims import size_hint, upper_bound
from xlac_sdk.target import Target

MOST_STEPS = 64  # the most vectors of a thread that are unrolled
ALIGN = 64  # alignment in bytes of buffers in SHARED memory


def check(schedule: GpuReductionSchedule, values: ReductionValues) -> None:
    """Raises Misfit for a schedule that a group around reductions cannot have."""
    space, target = values.space, values.target
    loops = merged(space.shape, values.survey, schedule.loops)
    for number, run in enumerate(loops):
        if len({axis in space.reduced for axis in run.axes}) > 1:
            raise Misfit(("loops", number), "reduced axes and others cannot be merged")
    rows = _rows(schedule, values, loops)
    if rows.vector is not None:
        check_lanes(schedule.lanes, rows.vector.extent, target, alone=False)
    if schedule.lanes > 1 and (values.ordered or rows.vector is None):
        raise Misfit(("lanes",), "elements are combined one at a time: it must be 1")
    check_threads(schedule.threads, target, target.warp if rows.by_row else 1)
    _check_width(schedule.width, schedule.threads, target, rows.by_row)
    if values.ordered and schedule.width > 1:
        raise Misfit(("width",), "elements are combined in order, by one thread: it must be 1")
    if BLOCK % schedule.ahead:
        raise Misfit(("ahead",), f"it must divide {BLOCK}")
    parts = sum(
        _aligned(_partials(schedule, rows, target) * r.type.dtype.compute.nbytes * schedule.lanes)
        for one in values.plan.passes
        for r in one.reductions
    )
    check_shared(parts, target, ("threads",))
    if isinstance(schedule, GpuSplitReductionSchedule):
        _check_split(schedule, values, rows)
    elif schedule.written_out:
        few = isinstance(rows.vectors, int)
        if not few or -(-upper_bound(rows.vectors) // schedule.width) > MOST_STEPS:
            problem = (
                f"a thread would have more than {MOST_STEPS} vectors, or a number that is "
                "not static"
            )
            raise Misfit(("written_out",), problem)
    if isinstance(schedule, GpuRowReductionSchedule):
        _check_kept(schedule, values, rows, parts)


def _rows(
    schedule: GpuReductionSchedule, values: ReductionValues, loops: Sequence[Run]
) -> RowSpace:
    """The rows of a schedule, whose `vector` is valid."""
    number, reduced = schedule.vector, values.space.reduced
    if number is not None and number >= max(1, len(loops)):
        raise Misfit(("vector",), f"there are {len(loops)} loops, counted from 0")
    vector = loops[number] if number is not None and loops else None
    if isinstance(schedule, GpuRowReductionSchedule):
        if values.ordered:
            raise Misfit(("template",), "elements are combined in order, by one thread")
        if vector is not None and vector.axes[0] not in reduced:
            raise Misfit(("vector",), "it must be the number of a loop that is reduced")
        return RowSpace(values.space, loops, vector, schedule.lanes, True)
    by_row = vector is not None and vector.axes[0] in reduced
    if by_row and isinstance(schedule, GpuColumnReductionSchedule):
        raise Misfit(("vector",), "it must be null, or the number of a loop that is not reduced")
    return RowSpace(values.space, loops, vector, schedule.lanes, by_row)


def _check_width(width: int, threads: int, target: Target, by_row: bool, path: Path = ()) -> None:
    if width & (width - 1) or width > threads:
        raise Misfit((*path, "width"), f"it must be a power of two, at most the {threads} threads")
    if by_row and width > target.warp:
        if width != threads:
            raise Misfit(
                (*path, "width"), f"it must be at most a warp's {target.warp}, or a whole block"
            )
        if width > target.warp**2:
            raise Misfit((*path, "width"), f"a row can have at most {target.warp**2} threads")


def _partials(schedule: GpuReductionSchedule, rows: RowSpace, target: Target) -> int:
    """Vectors of partial results that a block has in SHARED memory."""
    if rows.by_row:
        return schedule.width // target.warp if schedule.width > target.warp else 0
    return schedule.threads if schedule.width > 1 else 0


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGN) * ALIGN


def _check_split(
    schedule: GpuSplitReductionSchedule, values: ReductionValues, rows: RowSpace
) -> None:
    if not splits(values):
        raise Misfit(
            ("template",), "the kernel is more than one pass of reductions whose order is free"
        )
    if schedule.length >= size_hint(rows.vectors):
        most = size_hint(rows.vectors)
        raise Misfit(("length",), f"a result has {most} vectors, and there is more than one piece")
    target, combine = values.target, schedule.combine
    if combine is None:
        if not arrival_counter.has_tickets(target):
            raise Misfit(
                ("combine",),
                "this target has no atomic counter by which the last block knows that it is the "
                "last",
            )
        return
    check_threads(combine.threads, target, target.warp, ("combine", "threads"))
    _check_width(combine.width, combine.threads, target, True, ("combine",))


def _check_kept(
    schedule: GpuRowReductionSchedule, values: ReductionValues, rows: RowSpace, used: int
) -> None:
    every = (*values.group.inputs, *values.group.nodes)
    able = keepable(values.group, values.plan, values.space, frozenset())
    numbers = sorted(every.index(node) for nodes in able.values() for node in nodes)
    if schedule.written_out and schedule.kept:
        raise Misfit(("kept",), "unrolled vectors are kept in registers instead")
    size = upper_bound(rows.vectors) * rows.lanes * (schedule.threads // schedule.width)
    for place, number in enumerate(schedule.kept):
        if number not in numbers or number in schedule.kept[:place]:
            raise Misfit(("kept", place), f"values that can be kept: {numbers}, each once")
        used += _aligned(size * every[number].type.dtype.compute.nbytes)
        check_shared(used, values.target, ("kept", place))
