"""Chooses the vector loop, blocks and threads of elementwise groups."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.codegen.core.access_analysis import Run, Survey, contiguous, merged, runs, strided
from xlac.codegen.core.contraction.packing import TURNED
from xlac.codegen.core.kinds.elementwise import Job
from xlac.codegen.core.loop_nest import (
    CHUNKS,
    SERIAL_WORK,
    check_threads,
    chunk_of,
    pieces_of,
    share,
)
from xlac.codegen.core.square_loads import APART
from xlac.codegen.core.strip_mining import check_vectors, joins, lanes_for, unroll_for
from xlac.codegen.schedules.elementwise import ElementwiseSchedule, Nest, TransposedBlocks
from xlac.codegen.schedules.schedule import SERIAL, Misfit
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, size_hint, volume
from xlac.ops.tensor.extend import Concat, Pad
from xlac_sdk.support.limits import count_work
from xlac_sdk.target import Target

SQUARE = 1 << 11  # statements for a square of vectors
TILE = 32  # rows and columns of the blocks of a transposition
# statements of one kernel, as compile time grows superlinearly with straight-line code
NESTS = 32
NUMBERS = 4  # elements of a nest that are computed one by one, as scalars


Surveyed = Sequence[tuple[Job, Survey]]


def choose(jobs: Surveyed, group: Group, target: Target) -> ElementwiseSchedule:
    """A kernel for each nest with much work; nests with little work share kernels."""
    work = cost.work(group)
    written = sum(map(cost.nbytes, group.outputs))
    far = written > target.hardware.stream_outputs * target.l3_bytes
    seams = any(isinstance(node.op, Concat | Pad) for node in group.nodes)
    nests = tuple(_nest(job, survey, seams, far, target) for job, survey in jobs)
    parallel = any(nest.threads.loops for nest in nests) or any(
        size_hint(volume(job.shape)) * operations(survey) >= SERIAL_WORK for job, survey in jobs
    )
    large = len(jobs) > 1 and (work.flops + work.bytes > SERIAL_WORK or parallel)
    apart = large and (len(jobs) <= NESTS or parallel)
    return ElementwiseSchedule(1 if apart else max(1, min(NESTS, len(jobs))), nests)


def operations(survey: Survey) -> int:
    """Operations for each element."""
    return survey.flops + len(survey.accesses)


def _nest(job: Job, survey: Survey, seams: bool, streaming: bool, target: Target) -> Nest:
    count_work()
    loops = runs(job.shape, survey)
    if not loops:
        return Nest((), 0, 1, 1, False, None, 0, SERIAL, False)
    each, (*around, inner) = operations(survey), loops
    lanes = lanes_for(target, survey.dtypes, inner.extent)
    unroll, join = unroll_for(target, survey.statements, survey.flops), joins(target, survey.flops)
    if target.vector_registers and len(job.stores) * unroll > target.vector_registers:
        unroll, join = 1, False  # as many values at least are alive before the first is stored
    if not around and _few(inner.extent, seams):
        lanes, unroll, join = 1, size_hint(inner.extent), False
    blocks = _blocks(job, survey, loops, min(lanes, TURNED), target)
    if blocks and blocks.in_registers:
        lanes = min(lanes, TURNED)
    chunk = 0
    if blocks:
        shared = [
            *(run for run in around if run is not loops[blocks.across]),
            pieces_of(loops[blocks.across].extent, blocks.side),
            pieces_of(inner.extent, blocks.side),
        ]
        across = loops[blocks.across]
        area = min(blocks.side, across.usual) * min(blocks.side, inner.usual)
        threads = share(target, shared, area * each)
    else:
        rows = size_hint(volume(tuple(run.extent for run in around)))
        piece = chunk_of(lanes * unroll, each)
        few = rows < CHUNKS * max(2, target.threads)
        if rows * inner.usual * each >= SERIAL_WORK and few and inner.usual >= 2 * piece:
            chunk = piece
        shared = [*around, pieces_of(inner.extent, chunk)] if chunk else around
        threads = share(target, shared, (chunk or inner.usual) * each)
    axes = tuple(run.axes for run in loops)
    return Nest(axes, len(around), lanes, unroll, join, blocks, chunk, threads, streaming)


def _few(extent: Dim, seams: bool) -> bool:
    """Whether a nest has so few elements that each is computed as a scalar: they fill no vector, or
    each is a separate piece of a concatenation or padding (the group has `seams`).
    """
    if not isinstance(extent, int) or not 1 < extent <= NUMBERS:
        return False
    return seams or bool(extent & (extent - 1))


def _blocks(
    job: Job, survey: Survey, loops: Sequence[Run], lanes: int, target: Target
) -> TransposedBlocks | None:
    """Block sizes if some operands are contiguous along the vector loop and others along another
    long loop, or nearly so and read by squares; else None.
    """
    *around, inner = loops
    if not strided(inner, survey):
        return None
    dense = [n for n, run in enumerate(around) if contiguous(run, survey, job.shape)]
    crossed = dense or [n for n, run in enumerate(around) if _columns(survey, run, inner)]
    if not crossed or inner.usual < TILE // 4 or loops[crossed[-1]].usual <= TILE // 4:
        return None
    turned = not target.size and turns(survey, loops[crossed[-1]], inner, lanes)
    if not dense and not turned:
        return None
    # what the second-level cache does not hold is read from far away, in short pieces
    widest = max((dtype.nbytes for dtype in survey.dtypes), default=1)
    moved = size_hint(volume(job.shape)) * len(survey.accesses) * widest
    return TransposedBlocks(crossed[-1], TILE, turned, turned and moved > target.l2_bytes)


def turns(survey: Survey, crossed: Run, inner: Run, lanes: int) -> bool:
    """Whether operands that are (nearly) contiguous along `crossed` can be transposed in registers
    for rows along `inner`: there are whole squares, and not too many statements for one.
    """
    known = all(isinstance(run.extent, int) and run.extent >= lanes for run in (crossed, inner))
    columns = _columns(survey, crossed, inner)
    small = (survey.statements + columns * lanes.bit_length()) * lanes <= SQUARE
    return known and small and columns > 0 and 1 < lanes <= TURNED


def _columns(survey: Survey, crossed: Run, inner: Run) -> int:
    """The number of accesses whose neighbours along `crossed` are close, and far along `inner`."""
    along, across = crossed.axes[-1], inner.axes[-1]
    count = 0
    for one in survey.accesses:
        step, far = one.strides[along], one.strides[across]
        close = isinstance(step, int) and 1 <= step <= APART
        count += close and far not in (-1, 0, 1) and not one.opaque
    return count


def check(schedule: ElementwiseSchedule, jobs: Surveyed, target: Target) -> None:
    """Raises Misfit for a schedule that these nests cannot have."""
    if len(schedule.nests) != len(jobs):
        raise Misfit(("nests",), f"there are {len(jobs)} nests, not {len(schedule.nests)}")
    for number, (nest, (job, survey)) in enumerate(zip(schedule.nests, jobs, strict=True)):
        try:
            _check_nest(nest, job, survey, target)
            if nest.threads.loops and schedule.nests_per_kernel > 1 < len(jobs):
                raise Misfit(
                    ("threads", "loops"), "only a kernel with a single nest can be parallel"
                )
        except Misfit as misfit:
            raise Misfit(("nests", number, *misfit.path), misfit.problem, misfit.hint) from None


def _check_nest(nest: Nest, job: Job, survey: Survey, target: Target) -> None:
    loops = merged(job.shape, survey, nest.loops)
    if nest.vector >= max(1, len(loops)):
        raise Misfit(("vector",), f"there are {len(loops)} loops, counted from 0")
    check_vectors(nest.lanes, nest.unroll, nest.join, target)
    outside = len(loops) - 1
    if nest.blocks:
        if nest.blocks.across >= len(loops) or nest.blocks.across == nest.vector:
            raise Misfit(("blocks", "across"), "it must be another loop than the vector's")
        if nest.chunk:
            raise Misfit(("chunk",), "blocks are what threads share: it is 0 with them")
        crossed, inner = loops[nest.blocks.across], loops[nest.vector]
        if nest.blocks.in_registers and not turns(survey, crossed, inner, nest.lanes):
            raise Misfit(
                ("blocks", "in_registers"),
                "nothing is contiguous along the other loop, in whole squares of vectors",
            )
        if nest.blocks.prefetch and not nest.blocks.in_registers:
            raise Misfit(("blocks", "prefetch"), "only squares of vectors prefetch")
        if nest.blocks.in_registers and nest.blocks.side % nest.lanes:
            raise Misfit(("blocks", "side"), f"it must be a multiple of {nest.lanes} lanes")
        outside += 1
    if nest.chunk % (nest.lanes * nest.unroll):
        block = nest.lanes * nest.unroll
        raise Misfit(
            ("chunk",),
            f"it must be a multiple of {block}, what one iteration of the loop processes",
        )
    if nest.chunk and not loops:
        raise Misfit(("chunk",), "there is no loop to split")
    check_threads(nest.threads, max(0, outside) + (nest.chunk > 0))
