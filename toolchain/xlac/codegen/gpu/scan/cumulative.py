"""Cumulative operations on a GPU.

If there are many lines, or short ones, a thread scans each, adjacent threads adjacent lines.
Otherwise a block scans a segment of a line: every thread has a few consecutive elements, a scan
within warps and through SHARED memory gives the total before them, and the total before the segment
is the sum of the other segments' totals from a first launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.accumulators import fixed
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.kinds.cumulative import line
from xlac.codegen.core.lowered_group import KernelLaunch, LoweredGroup, LowerPart, Scratch
from xlac.codegen.core.summation import Pair, compensated
from xlac.codegen.gpu.core.grid import (
    RESIDENT,
    THREADS,
    GridThread,
    beside,
    check_threads,
    every,
    grid,
    threads_over,
)
from xlac.codegen.schedules.gpu.order import (
    GPU_SCANS,
    GpuBlockScanSchedule,
    GpuCompactSchedule,
    GpuLineScanSchedule,
)
from xlac.codegen.schedules.schedule import Misfit
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, ceil_div, divisor, size_hint, upper_bound, volume
from xlac.ir.op import Index
from xlac.ops import numeric
from xlac.ops.reduction.cumulative import Cumulative
from xlac.ops.tensor.leaf import convert_element
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Const, Exchange, Expr, Shuffle
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive
EACH = 4  # consecutive elements of a thread
MOST_EACH = 32
SHORT = 64  # elements of a line up to which a single thread is faster


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """One launch if threads or single blocks scan whole lines, else two."""
    op = group.anchor.op
    assert isinstance(op, Cumulative)
    shape = group.anchor.shape
    count, lines = shape[op.axis], volume(tuple(n for a, n in enumerate(shape) if a != op.axis))
    outer = [Run(n, (a,)) for a, n in enumerate(shape[: op.axis])]
    loops = [*outer, Run(volume(shape[op.axis + 1 :]), ())]
    chosen: GpuLineScanSchedule | GpuBlockScanSchedule
    if size_hint(count) <= SHORT or size_hint(lines) >= RESIDENT * max(1, target.processors):
        chosen = GpuLineScanSchedule(threads_over(target, loops))
    else:
        chosen = GpuBlockScanSchedule(EACH, min(THREADS, target.block_threads))
    fits = partial(check, target=target)
    schedule = lower_part.decisions.settle(name, chosen, fits, GPU_SCANS)
    if isinstance(schedule, GpuBlockScanSchedule):
        return LoweredGroup(tuple(_Lines(group, target, op, schedule).launches(name)))
    elements = Elements(Builder(), group, target)
    _alone(elements, op, loops, schedule.threads)
    return LoweredGroup((elements.launch(name, cost.work(group)),))


def check(
    schedule: GpuLineScanSchedule | GpuBlockScanSchedule | GpuCompactSchedule, target: Target
) -> None:
    """Raises Misfit for a block size or elements per thread that are not possible."""
    if isinstance(schedule, GpuLineScanSchedule):
        check_threads(schedule.threads, target)
        return
    check_threads(schedule.threads, target, target.warp)
    if schedule.threads > target.warp**2:
        raise Misfit(("threads",), f"at most {target.warp**2} threads of a block can share sums")
    if schedule.each & (schedule.each - 1) or schedule.each > MOST_EACH:
        raise Misfit(("each",), f"it must be a power of two, at most {MOST_EACH}")


def _alone(elements: Elements, op: Cumulative, loops: Sequence[Run], threads: int) -> None:
    """Scans each line by one thread."""
    (x,), (*outer, across) = elements.group.anchor.inputs, loops
    with every(elements.builder, elements.target, loops, threads) as counters:
        line(elements, op, x, tuple(counters[run] for run in outer), counters[across], None)


class BlockScan:
    """A segment of a line in a block: the scan of its threads' values by one primitive."""

    def __init__(self, here: GridThread, primitive: Primitive, identity: Const) -> None:
        self.here, self.builder = here, here.builder
        self.primitive, self.identity = primitive, identity

    def exclusive(self, value: Expr) -> tuple[Expr, Expr]:
        """The combination of the values of all threads before this one (exclusive scan), and of the
        whole block.
        """
        builder, here = self.builder, self.here
        lane, warp = build.mod(here.thread, here.warp), build.div(here.thread, here.warp)
        before, total = self._within(value, lane, here.warp)
        warps = here.threads // here.warp
        if warps == 1:
            return before, total
        sums = here.shared("sums", value.dtype, warps)
        with builder.when(build.apply(P.EQ, lane, build.index(0))):
            builder.store(sums, warp, total)
        builder.barrier()
        before_warp: Expr = self.identity
        everything: Expr = self.identity
        for number in range(warps):
            one = builder.let("sum", build.load(sums, build.index(number)))
            some = build.apply(P.LT, build.index(number), warp)
            before_warp = builder.let(
                "before",
                build.apply(self.primitive, before_warp, build.select(some, one, self.identity)),
            )
            everything = builder.let("whole", build.apply(self.primitive, everything, one))
        return builder.let("before", build.apply(self.primitive, before_warp, before)), everything

    def _within(self, value: Expr, lane: Expr, lanes: int) -> tuple[Expr, Expr]:
        """The same among the threads of a warp, by pairwise exchanges at doubling distances."""
        builder = self.builder
        before: Expr = self.identity
        total = builder.let("sum", value)
        distance = 1
        while distance < lanes:
            other = builder.let("other", Exchange(total, distance))
            right = build.apply(
                P.NE, build.apply(P.AND, lane, build.index(distance)), build.index(0)
            )
            joined = build.apply(self.primitive, other, before)
            before = builder.let("before", build.select(right, joined, before))
            total = builder.let("sum", build.apply(self.primitive, total, other))
            distance *= 2
        return before, total


class _Lines:
    """The launches for lines that blocks share."""

    def __init__(
        self, group: Group, target: Target, op: Cumulative, schedule: GpuBlockScanSchedule
    ) -> None:
        self.group, self.target, self.op = group, target, op
        anchor = group.anchor
        self.shape, self.dtype = anchor.shape, anchor.type.dtype
        self.count: Dim = self.shape[op.axis]
        self.lines: Dim = volume(tuple(n for a, n in enumerate(self.shape) if a != op.axis))
        self.threads, self.each = schedule.threads, schedule.each
        self.stretch = self.threads * self.each
        self.pieces = ceil_div(self.count, self.stretch)
        self.primitive = numeric.COMBINE[op.combine]
        self.identity = Const(numeric.identity(op.combine, self.dtype), self.dtype.compute)
        last = op.axis == len(self.shape) - 1
        # whether a thread's elements are loaded as a vector
        self.at_once = last and not op.reverse and divisor(self.count) % self.each == 0
        self.sums = Scratch(self.dtype.compute, self.lines * self.pieces, "sums")

    def launches(self, name: str) -> list[KernelLaunch]:
        """A launch for the totals of segments, unless each line has one; then the scan."""
        before = []
        if upper_bound(self.pieces) > 1:
            elements = Elements(Builder(), self.group, self.target)
            self._write(elements, self._sum)
            before.append(elements.launch(f"{name}_sums"))
        elements = Elements(Builder(), self.group, self.target)
        self._write(elements, self._scan)
        return [*before, elements.launch(name, cost.work(self.group))]

    def _write(
        self, elements: Elements, work: Callable[[Elements, GridThread, Expr, Expr], None]
    ) -> None:
        """A block for every segment of every line."""
        builder = elements.builder
        with grid(builder, self.target, self.lines * self.pieces, self.threads) as here:
            line = builder.let("line", build.div(here.block, self.pieces))
            work(elements, here, line, builder.let("piece", build.mod(here.block, self.pieces)))

    def _elements(
        self, elements: Elements, here: GridThread, line: Expr, piece: Expr
    ) -> list[tuple[Expr, Expr, Expr]]:
        """A thread's elements, with their positions along the line and whether they are inside; the
        identity outside.
        """
        (x,) = self.group.anchor.inputs
        builder = elements.builder
        first = build.add(build.mul(piece, self.stretch), build.mul(here.thread, self.each))
        first = builder.let("first", first)
        if self.at_once:
            there = builder.let("there", build.apply(P.LT, first, build.lift(self.count)))
            with elements.guarded(there):
                vector = build.splat(
                    elements.at(x, self._index(line, build.ramp(first, 1, self.each))), self.each
                )
            lanes = [
                builder.let("x", build.select(there, Shuffle((vector,), (k,)), self.identity))
                for k in range(self.each)
            ]
            return [(value, build.add(first, k), there) for k, value in enumerate(lanes)]
        values = []
        for number in range(self.each):
            along = build.add(first, number)
            there = builder.let("there", build.apply(P.LT, along, build.lift(self.count)))
            place = builder.let(
                "place", build.sub(build.lift(self.count - 1), along) if self.op.reverse else along
            )
            with elements.guarded(there):
                value = builder.let(
                    "x",
                    build.select(there, elements.at(x, self._index(line, place)), self.identity),
                )
            values.append((value, place, there))
        return values

    def _index(self, line: Expr, place: Expr) -> Index:
        index: list[Expr] = [place] * len(self.shape)
        for a in reversed([a for a in range(len(self.shape)) if a != self.op.axis]):
            index[a] = build.mod(line, self.shape[a])
            line = build.div(line, self.shape[a])
        return tuple(index)

    def _sum(self, elements: Elements, here: GridThread, line: Expr, piece: Expr) -> None:
        total: Expr = self.identity
        for value, _, _ in self._elements(elements, here, line, piece):
            total = elements.builder.let("sum", build.apply(self.primitive, total, value))
        (total,) = here.across([(self.primitive, total)], here.threads)
        with elements.builder.when(build.apply(P.EQ, here.thread, build.index(0))):
            buffer = elements.parameter(self.sums, Access.WRITE)
            elements.store_to(buffer, build.add(build.mul(line, self.pieces), piece), total)

    def _scan(self, elements: Elements, here: GridThread, line: Expr, piece: Expr) -> None:
        builder = elements.builder
        carry = self._carry(elements, here, line, piece) if upper_bound(self.pieces) > 1 else None
        values = self._elements(elements, here, line, piece)
        own: Expr = self.identity
        for value, _, _ in values:
            own = builder.let("sum", build.apply(self.primitive, own, value))
        running, _ = BlockScan(here, self.primitive, self.identity).exclusive(own)
        if carry is not None:
            running = build.apply(self.primitive, carry, running)
        results: list[Expr] = []
        for value, _, _ in values:
            before = builder.let("before", running)
            running = builder.let("running", build.apply(self.primitive, before, value))
            result = before if self.op.exclusive else running
            results.append(
                builder.let(
                    "result", convert_element(result, self.dtype) if self.dtype.is_half else result
                )
            )
        anchor = self.group.anchor
        if self.at_once:
            _, first, there = values[0]
            with builder.when(there):
                elements.store(
                    anchor, self._index(line, build.ramp(first, 1, self.each)), beside(results)
                )
            return
        for result, (_, place, there) in zip(results, values, strict=True):
            with builder.when(there):
                elements.store(anchor, self._index(line, place), result)

    def _carry(self, elements: Elements, here: GridThread, line: Expr, piece: Expr) -> Expr:
        """The combination of the segments before this one, computed by the threads of its block
        together.
        """
        builder = elements.builder
        buffer = elements.parameter(self.sums, Access.READ)
        total = builder.variable("carry", self.identity)
        pair = Pair.of(builder, total) if compensated(self.op.combine, self.dtype) else None
        with builder.loop("k", 0, piece, here.threads) as k:
            at = builder.let("at", build.add(k, here.thread))
            there = build.apply(P.LT, at, piece)
            with elements.guarded(there):
                one = elements.load(buffer, build.add(build.mul(line, self.pieces), at))
            value = build.select(there, one, self.identity)
            if pair is not None:
                pair.add(value)
            else:
                builder.assign(total, build.apply(self.primitive, total, value))
        before = fixed(elements, pair.total() if pair else total)
        (carry,) = here.across([(self.primitive, before)], here.threads)
        return carry
