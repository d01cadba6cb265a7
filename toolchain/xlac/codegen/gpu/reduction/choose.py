"""Chooses the kernels of a group around reductions on a GPU: by rows or by columns, the threads for
each row, and whether a result is split over blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xlac.codegen.core.access_analysis import Run, contiguous, runs
from xlac.codegen.core.kinds.reduction import ReductionValues
from xlac.codegen.gpu.core.access_width import access_lanes
from xlac.codegen.gpu.core.grid import RESIDENT, at_least, threads_for
from xlac.codegen.gpu.reduction import arrival_counter
from xlac.codegen.gpu.reduction.row_cache import keepable
from xlac.codegen.gpu.reduction.row_space import RowSpace
from xlac.codegen.gpu.reduction.threads_per_row import share
from xlac.codegen.schedules.gpu.reduction import (
    CombineKernel,
    GpuColumnReductionSchedule,
    GpuReductionSchedule,
    GpuRowReductionSchedule,
    GpuSplitReductionSchedule,
)
from xlac.fusion.group import is_immediate
from xlac.ir.dims import ceil_div, divisor, size_hint, upper_bound, volume

AHEAD = 4  # vectors that a loop loads at once
REGISTERS = 32  # 32-bit registers of a thread that hold elements of its row
STEPS = 8  # vectors of a thread that are unrolled
MOST = 512  # threads of a block that reduces columns
# elements of a result for each thread of a split reduction
TURNS = 32
# the fewest elements for each multiprocessor for which a split pays, times the number of blocks
BLOCK_WORK = 1 << 9

_Whole = GpuRowReductionSchedule | GpuColumnReductionSchedule


def choose(values: ReductionValues) -> GpuReductionSchedule:
    """One kernel, whose threads have whole results; or a split one, if there are few results."""
    space = values.space
    loops = runs(space.shape, values.survey, values.borders())
    vector = max(
        loops, key=lambda r: (contiguous(r, values.survey, space.shape), r.axes), default=None
    )
    if (vector is None or vector.axes[0] in space.reduced) and not values.ordered:
        rows, whole = _by_row(values, loops, vector)
    else:
        rows, whole = _by_column(values, loops, vector)
    return _split(values, rows, whole) if _is_split(values, rows, whole) else whole


def _by_row(
    values: ReductionValues, loops: Sequence[Run], vector: Run | None
) -> tuple[RowSpace, _Whole]:
    """A few lanes of a warp, a warp or a whole block for each row."""
    target = values.target
    lanes = access_lanes(target, values.survey, vector or Run(volume(()), ()), alone=False)
    rows = RowSpace(values.space, loops, vector, lanes, True)
    steps = _steps(values, lanes)
    width, threads = share(target, size_hint(rows.vectors), size_hint(rows.rows), steps)
    few = isinstance(rows.vectors, int) and -(-upper_bound(rows.vectors) // width) <= steps
    return rows, GpuRowReductionSchedule(
        tuple(r.axes for r in loops),
        loops.index(vector) if vector else 0,
        lanes,
        width,
        threads,
        few,
        AHEAD,
        () if few else _kept(values, upper_bound(rows.vectors) * lanes * (threads // width)),
    )


def _steps(values: ReductionValues, lanes: int) -> int:
    """Vectors of a thread that fit its registers, one of each input."""
    group, space = values.group, values.space
    rows_of = [n for n in group.inputs if space.is_full(n) and not is_immediate(n)]
    held = max(1, sum(max(1, n.type.dtype.compute.nbytes // 4) for n in rows_of))
    return max(1, min(STEPS, REGISTERS // (lanes * held)))


def _kept(values: ReductionValues, size: int) -> tuple[int, ...]:
    """Values that later passes read again, as far as `size` elements of each fit SHARED memory."""
    room, kept = values.target.shared_bytes // 2, []
    numbers = {n: k for k, n in enumerate((*values.group.inputs, *values.group.nodes))}
    for nodes in keepable(values.group, values.plan, values.space).values():
        for node in nodes:
            nbytes = size * node.type.dtype.compute.nbytes
            if nbytes <= room:
                room -= nbytes
                kept.append(numbers[node])
    return tuple(kept)


def _by_column(
    values: ReductionValues, loops: Sequence[Run], vector: Run | None
) -> tuple[RowSpace, _Whole]:
    """A rectangle of threads: as wide as a warp along the results, and as many rows as it takes to
    keep the multiprocessors busy.
    """
    target, space = values.target, values.space
    along = vector if vector and vector.axes[0] not in space.reduced else None
    rows = RowSpace(space, loops, along, 1, False)
    vectors, results = size_hint(rows.vectors), size_hint(rows.rows)
    busy = RESIDENT * max(1, target.processors)
    if along is not None and not values.ordered:
        lanes = access_lanes(target, values.survey, along, alone=False)
        while lanes > 1 and results // lanes * max(1, vectors // TURNS) < busy:
            lanes //= 2
        rows = replace(rows, lanes=lanes)
    width, threads = _rectangle(values, vectors, size_hint(rows.rows))
    few = isinstance(rows.vectors, int) and -(-vectors // width) <= min(
        STEPS, REGISTERS // rows.lanes
    )
    return rows, GpuColumnReductionSchedule(
        tuple(r.axes for r in loops),
        loops.index(along) if along else None,
        rows.lanes,
        width,
        threads,
        few,
        AHEAD,
    )


def _rectangle(values: ReductionValues, vectors: int, rows: int) -> tuple[int, int]:
    """Threads that share a result, and threads of a block."""
    target = values.target
    side, width, limit = (
        min(target.warp, at_least(max(1, rows))),
        1,
        min(MOST, target.block_threads),
    )
    busy = RESIDENT * max(1, target.processors)
    if not values.ordered:
        while 2 * side * width <= limit and rows * width < busy and 2 * width <= vectors:
            width *= 2
    if side * width < target.warp or width == 1:
        side = max(target.warp // width, threads_for(target, rows) if width == 1 else 0)
    return width, side * width


def _is_split(values: ReductionValues, rows: RowSpace, whole: _Whole) -> bool:
    """Whether a group is one pass without elementwise outputs, whose blocks leave multiprocessors
    idle.
    """
    blocks = size_hint(ceil_div(rows.rows, whole.threads // whole.width))
    processors = max(1, values.target.processors)
    many = size_hint(volume(values.space.shape)) > BLOCK_WORK * processors * blocks
    return splits(values) and blocks < processors and many


def splits(values: ReductionValues) -> bool:
    """Whether a group is one pass of reductions in any order, without elementwise outputs."""
    passes = values.plan.passes
    return len(passes) == 1 and not passes[0].stores and not values.ordered


def _split(values: ReductionValues, rows: RowSpace, whole: _Whole) -> GpuReductionSchedule:
    """Splits rows into as many pieces as keep all multiprocessors busy."""
    target, width = values.target, whole.width
    blocks = size_hint(ceil_div(rows.rows, whole.threads // width))
    count = max(1, 2 * RESIDENT * max(1, target.processors) // (whole.threads * blocks))
    length = -(-size_hint(rows.vectors) // (count * width)) * width
    span = width * AHEAD
    even = span * at_least(-(-length // span))
    if divisor(rows.vectors) % even == 0:  # no bounds check in the loops
        length = even
    pieces = ceil_div(rows.vectors, length)
    if pieces == 1:
        return replace(whole, written_out=False)
    combine = None
    if not arrival_counter.has_tickets(target):
        results = size_hint(volume(tuple(r.extent for r in rows.kept)))
        combine = CombineKernel(*share(target, size_hint(pieces), results, _steps(values, 1)))
    return GpuSplitReductionSchedule(
        whole.loops, whole.vector, whole.lanes, width, whole.threads, AHEAD, length, combine
    )
