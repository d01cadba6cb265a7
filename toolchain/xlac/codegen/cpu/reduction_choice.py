"""Chooses the loops around reductions: the vector axis, the parallel loops, and the values kept
between passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xlac.codegen.core.access_analysis import Run, contiguous, merged, runs
from xlac.codegen.core.loop_nest import (
    CHUNKS,
    SERIAL_WORK,
    check_threads,
    chunk_of,
    pieces_of,
    share,
)
from xlac.codegen.core.reduction_plan import ReductionPass
from xlac.codegen.core.strip_mining import check_vectors, joins, lanes_for, unroll_for
from xlac.codegen.cpu.row_reduction import Rows
from xlac.codegen.schedules.reduction import (
    KeptValue,
    ReductionSchedule,
    RowReductionSchedule,
    SplitReductionSchedule,
)
from xlac.codegen.schedules.schedule import Misfit
from xlac.ir.dims import ceil_div, size_hint, upper_bound, volume
from xlac.ir.graph import Node

KEEP_BYTES = 32 << 10  # bytes of values kept between passes on a thread's stack
# the most results of a split reduction; more results are shared by threads without a split
RESULTS = 32
# the most pieces, independent of the number of threads, as the order of a sum may depend on sizes
# alone
# bytes of a row that a pass along columns reads before it goes to the next row: of less, hardware
# that fetches ahead sees no stream
STRIPE = 256
SHARE = 4  # one register in SHARE holds sums of a stripe
PIECES = 512
# the fewest operations of a piece: claiming one takes a tenth of a microsecond
PIECE_WORK = 3 << 15


def choose(rows: Rows) -> ReductionSchedule:
    """One kernel, or two for few results of many elements."""
    return _schedule(rows, _is_split(rows))


def every_template(rows: Rows) -> Iterator[ReductionSchedule]:
    """A schedule of each template that a group around reductions can have."""
    yield _schedule(rows, False)
    if splits(rows):
        yield _schedule(rows, True)


def _schedule(rows: Rows, split: bool) -> ReductionSchedule:
    space, survey, target = rows.space, rows.survey, rows.target.shipped
    loops = runs(space.shape, survey, rows.borders())
    vector = max(loops, key=lambda r: (contiguous(r, survey, space.shape), r.axes), default=None)
    by_row = vector is None or vector.axes[0] in space.reduced
    lanes = lanes_for(target, survey.dtypes, vector.extent if vector else volume(()))
    lanes = 1 if by_row and rows.ordered else lanes
    every = unroll_for(target, survey.statements, survey.flops)
    if not by_row and vector is not None:
        every = min(every, _beside(rows))
        every = max(every, _across(rows, vector, lanes))
    unroll: tuple[int, ...] = (every,)
    if by_row:
        unroll = tuple(_unroll(one, rows, vector, lanes) for one in rows.plan.passes)
    axes = tuple(run.axes for run in loops)
    number = loops.index(vector) if vector else 0
    join = joins(target, survey.flops)
    if split:
        return _split(
            rows,
            loops,
            SplitReductionSchedule(
                axes, number, lanes, unroll, join, 0, 1, share(target, (), 0), 1
            ),
            every,
        )
    kept = [run for run in loops if run.axes[0] not in space.reduced]
    each = operations(rows) * size_hint(space.count)
    chunk = 0
    if not by_row:
        assert vector is not None
        kept = [run for run in kept if run is not vector]
        each = max(1, each)
        piece = chunk_of(lanes * every, each)
        many = size_hint(volume(tuple(run.extent for run in kept)))
        few = many < CHUNKS * max(2, target.threads)
        if many * vector.usual * each >= SERIAL_WORK and few and vector.usual >= 2 * piece:
            chunk = piece
            kept = [*kept, pieces_of(vector.extent, chunk)]
        each *= chunk or vector.usual
    threads = share(target, kept, each)
    kept_values = tuple(_kept(rows)) if by_row else ()
    return RowReductionSchedule(axes, number, lanes, unroll, join, chunk, threads, kept_values)


def operations(rows: Rows) -> int:
    """Operations for each element."""
    return rows.survey.flops + len(rows.survey.accesses)


def _unroll(one: ReductionPass, rows: Rows, vector: Run | None, lanes: int) -> int:
    """Vectors that a pass along rows processes at once: enough accumulators to hide their
    latency.
    """
    if vector is None or lanes == 1:
        return 1
    wanted = unroll_for(rows.target, 2 * one.size, rows.survey.flops)
    copies = min(wanted, vector.usual // lanes)
    return 1 << max(1, copies).bit_length() - 1


def _beside(rows: Rows) -> int:
    """The most vectors of results that a pass along columns processes at once: what its sums leave
    registers for.
    """
    sums = max(len(one.reductions) for one in rows.plan.passes)
    room = rows.target.shipped.vector_registers * 3 // 4
    return 1 << max(1, room // max(1, sums)).bit_length() - 1


def _across(rows: Rows, vector: Run, lanes: int) -> int:
    """Vectors of results that passes along columns process at once: a stripe of STRIPE bytes, where
    the columns exceed a cache and sums leave registers for it.
    """
    target, sums = rows.target.shipped, max(len(one.reductions) for one in rows.plan.passes)
    if target.size or not target.vector_bytes or lanes == 1:
        return 1
    if size_hint(rows.space.count) * STRIPE <= target.l1_bytes:
        return 1
    room = target.vector_registers // SHARE // max(1, sums)
    wide = min(STRIPE // target.vector_bytes, room, vector.usual // lanes)
    return 1 << max(1, wide).bit_length() - 1


def _kept(rows: Rows) -> list[KeptValue]:
    """Values kept between passes on the stack, or in a row of an output if the stack is
    too small.
    """
    kept: list[KeptValue] = []
    borrowed: set[Node] = set()
    size = upper_bound(rows.space.count)
    for one in rows.plan.passes:
        room = KEEP_BYTES
        for node in one.keep:
            nbytes = size * node.type.dtype.compute.nbytes
            value = rows.group.nodes.index(node)
            if nbytes <= room:
                room -= nbytes
                kept.append(KeptValue(value, None))
                continue
            for output in rows.plan.passes[-1].stores:
                if output not in borrowed and holds(rows, output, node):
                    borrowed.add(output)
                    kept.append(KeptValue(value, rows.group.outputs.index(output)))
                    break
    return kept


def holds(rows: Rows, output: Node, node: Node) -> bool:
    """Whether the rows of an output, which is written last, can temporarily hold a value."""
    stores, dtype = rows.plan.passes[-1].stores, node.type.dtype.compute
    return output in stores and output.type.dtype is dtype and output.shape == rows.space.shape


def _is_split(rows: Rows) -> bool:
    """Whether there are too few results for the threads to share, and enough elements to split."""
    results = size_hint(volume(rows.space.kept))
    work = operations(rows) * size_hint(volume(rows.space.shape))
    return splits(rows) and results <= RESULTS and work > 4 * SERIAL_WORK


def splits(rows: Rows) -> bool:
    """Whether a group is a single pass of reductions in any order, without elementwise outputs."""
    return len(rows.plan.passes) == 1 and not rows.plan.passes[0].stores and not rows.ordered


def _split(
    rows: Rows, loops: Sequence[Run], schedule: SplitReductionSchedule, every: int
) -> SplitReductionSchedule:
    """The pieces of a split reduction."""
    reduced = [run for run in loops if run.axes[0] in rows.space.reduced]
    kept = [run for run in loops if run not in reduced]
    vector = loops[schedule.vector]
    others = [run for run in reduced if run is not vector]
    run = max(others or reduced, key=lambda r: r.usual)
    work = operations(rows) * size_hint(volume(rows.space.shape))
    each = work // run.usual
    pieces = max(1, min(PIECES, run.usual * each // PIECE_WORK, run.usual))
    block = schedule.lanes * every if run is vector else 1
    stretch = -(-run.usual // pieces // block) * block
    stretches = Run(ceil_div(run.extent, stretch), ())
    threads = share(rows.target, [stretches], work // max(1, stretches.usual))
    dtypes = rows.survey.dtypes
    lanes = lanes_for(rows.target, dtypes, kept[-1].extent) if kept else 1
    return SplitReductionSchedule(
        schedule.loops,
        schedule.vector,
        schedule.lanes,
        schedule.unroll,
        schedule.join,
        loops.index(run),
        stretch,
        threads,
        lanes,
    )


def check(schedule: ReductionSchedule, rows: Rows) -> None:
    """Raises Misfit for a schedule that a group around reductions cannot have."""
    space = rows.space
    loops = merged(space.shape, rows.survey, schedule.loops)
    for number, run in enumerate(loops):
        if len({axis in space.reduced for axis in run.axes}) > 1:
            raise Misfit(("loops", number), "reduced axes and others cannot be merged")
    if schedule.vector >= max(1, len(loops)):
        raise Misfit(("vector",), f"there are {len(loops)} loops, counted from 0")
    by_row = not loops or loops[schedule.vector].axes[0] in space.reduced
    for unroll in schedule.unroll:
        check_vectors(schedule.lanes, unroll, schedule.join, rows.target)
    if by_row and (rows.ordered or not loops) and schedule.lanes > 1:
        raise Misfit(("lanes",), "elements are combined in order, one at a time")
    wanted = len(rows.plan.passes) if by_row else 1
    if len(schedule.unroll) != wanted:
        raise Misfit(("unroll",), f"it must be a list of {wanted}")
    kept = sum(run.axes[0] not in space.reduced for run in loops)
    if isinstance(schedule, SplitReductionSchedule):
        _check_split(schedule, rows, loops)
        return
    if schedule.chunk and by_row:
        raise Misfit(("chunk",), "only vectors of results are split into pieces: it must be 0 here")
    if schedule.chunk % (schedule.lanes * schedule.unroll[0] if schedule.unroll else 1):
        raise Misfit(
            ("chunk",), "it must be a multiple of what one iteration of the loop processes"
        )
    check_threads(schedule.threads, kept if by_row else kept - (not schedule.chunk))
    _check_kept(schedule, rows, by_row)


def _check_kept(schedule: RowReductionSchedule, rows: Rows, by_row: bool) -> None:
    size, borrowed, seen = upper_bound(rows.space.count), set[int](), set[int]()
    able = {rows.group.nodes.index(n): one for one in rows.plan.passes for n in one.keep}
    for number, one in enumerate(schedule.kept):
        if not by_row or one.value not in able or one.value in seen:
            raise Misfit(
                ("kept", number, "value"), f"values that can be kept: {sorted(able)}, each once"
            )
        seen.add(one.value)
        node = rows.group.nodes[one.value]
        if one.output is None:
            if size * node.type.dtype.compute.nbytes > KEEP_BYTES:
                raise Misfit(("kept", number, "output"), "it is too large for the stack")
            continue
        outputs = rows.group.outputs
        fits = one.output < len(outputs) and holds(rows, outputs[one.output], node)
        if not fits or one.output in borrowed:
            raise Misfit(("kept", number, "output"), "no output of its type and shape is free")
        borrowed.add(one.output)


def _check_split(schedule: SplitReductionSchedule, rows: Rows, loops: Sequence[Run]) -> None:
    if not splits(rows):
        raise Misfit(
            ("template",), "the kernel is more than one pass of reductions whose order is free"
        )
    if schedule.cut >= len(loops) or loops[schedule.cut].axes[0] not in rows.space.reduced:
        raise Misfit(("cut",), "it must be the number of a loop that is reduced")
    if schedule.stretch > loops[schedule.cut].usual:
        raise Misfit(("stretch",), f"the loop has {loops[schedule.cut].usual} turns")
    if schedule.cut == schedule.vector and schedule.stretch % schedule.lanes:
        raise Misfit(("stretch",), f"it must be a multiple of {schedule.lanes} lanes")
    check_threads(schedule.threads, 1)
    try:
        check_vectors(schedule.combine_lanes, 1, False, rows.target)
    except Misfit as misfit:
        raise Misfit(("combine_lanes",), misfit.problem) from None
