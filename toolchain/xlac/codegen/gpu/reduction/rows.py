"""Groups around reductions on a GPU whose contiguous axis is reduced (softmax, norms); `columns.py`
has the others.

A few lanes of a warp, a warp or a whole block takes a row; each thread has vectors of it, a row of
threads apart, and partial results meet by exchanges. A row that is short enough stays in registers
from the first pass to the last: its loops are written out, and what one pass computed the next
finds named. A longer one keeps in SHARED memory what later passes need, if it fits. Every order of
summation is fixed by the shapes and the target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from xlac.codegen.core.access_analysis import Run, expand
from xlac.codegen.core.accumulators import Accumulator, rounded
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.core.lowered_group import Scratch
from xlac.codegen.core.reduction_plan import ReductionPass, reduced_inputs
from xlac.codegen.core.summation import BLOCK
from xlac.codegen.cpu.row_reduction import Rows
from xlac.codegen.gpu.core.grid import at_least, grid, unravelled
from xlac.codegen.gpu.elementwise import access_lanes
from xlac.codegen.gpu.reduction import arrival_counter, combine_partials
from xlac.codegen.gpu.reduction.row_cache import read_again
from xlac.codegen.gpu.reduction.threads_per_row import share
from xlac.fusion.group import is_immediate
from xlac.ir.dims import Dim, ceil_div, divisor, size_hint, upper_bound, volume
from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac.ops import numeric
from xlac.ops.reduction.reduction import Reduce
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Buffer, Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive
REGISTERS = 32  # 32-bit registers of a thread that hold elements of its row
STEPS = 8  # vectors of a thread that are written out
AHEAD = 4  # vectors that a loop reads at once


class RowBlocks(Rows):
    """Writes the kernel of a group whose contiguous axis is reduced."""

    def _size(self) -> None:
        """How many threads share a row, and how many vectors of it each has."""
        self.each = self.survey.flops + len(self.survey.accesses)
        self.pieces: Dim = 1
        self.part_lanes = 1  # of what a block adds to a row
        run = self.vector or Run(volume(()), ())
        self.lanes = (
            1
            if self.ordered or not self.by_row
            else access_lanes(self.target, self.survey, run, alone=False)
        )
        others = [r.extent for r in self.reduced if r is not self.vector]
        self.row_vectors = run.extent // self.lanes  # of one crossing of the contiguous axis
        self.vectors: Dim = volume(tuple(others)) * self.row_vectors
        self.rows: Dim = volume(tuple(r.extent for r in self.kept))
        self._share(size_hint(self.vectors), size_hint(self.rows))

    def _share(self, vectors: int, rows: int) -> None:
        """Decides on threads; the loops over a row that they hold in registers are written out."""
        rows_of = [n for n in self.group.inputs if self.space.is_full(n) and not is_immediate(n)]
        held = max(1, sum(max(1, n.type.dtype.compute.nbytes // 4) for n in rows_of))
        most_steps = max(1, min(STEPS, REGISTERS // (self.lanes * held)))
        self.width, self.threads = share(self.target, vectors, rows, most_steps)
        self.side = self.threads // self.width
        steps = -(-upper_bound(self.vectors) // self.width)
        self.written_out = isinstance(self.vectors, int) and steps <= most_steps

    # ---- the kernel --------------------------------------------------------------------------

    def write(self) -> None:
        """One row, or a stretch of one, for every `width` threads."""
        builder, blocks = self.builder, ceil_div(self.rows, self.side)
        with (
            grid(builder, self.target, blocks * self.pieces, self.threads) as here,
            ExitStack() as guards,
        ):
            self.here, block = here, here.block
            if self.pieces != 1:
                self.piece = builder.let("piece", build.div(here.block, blocks))
                block = builder.let("block", build.mod(here.block, blocks))
            self.shared_result = block, blocks
            row, self.lane = self._place_of_thread(block)
            self.there: Expr | None = None
            if divisor(self.rows) % self.side:
                self.there = builder.let("there", build.apply(P.LT, row, build.lift(self.rows)))
                guards.enter_context(self.elements.guarded(self.there))
            self._row(self._counters(row))

    def _place_of_thread(self, block: Expr) -> tuple[Expr, Expr]:
        """The row of a thread, and its number among those that share it."""
        thread = self.here.thread
        row = build.add(build.mul(block, self.side), build.div(thread, self.width))
        return self.builder.let("row", row), self.builder.let("lane", build.mod(thread, self.width))

    def _counters(self, row: Expr) -> dict[Run, Expr]:
        return unravelled(self.builder, row, self.kept)

    def _row(self, counters: Mapping[Run, Expr]) -> None:
        kept = expand(counters, self.space.shape)
        homes = {} if self.written_out else self._kept_between()
        for number, one in enumerate(self.plan.passes):
            gathered = {
                r: Accumulator(self.elements, r, self.lanes, 1, long=self._is_long())
                for r in one.reductions
            }
            for vectors in self._visits(list(gathered.values())):
                for vector, guard in vectors:  # everything is read before anything is stored
                    with self.elements.guarded(guard):
                        self._read(one, counters, vector)
                for vector, guard in vectors:
                    with self.elements.guarded(guard):
                        self._vector(one, counters, vector, gathered, homes.get(number, {}))
            self._finish_pass(one, gathered, kept)
            for node, buffer in homes.get(number, {}).items():
                self._bind_home(node, buffer)
        if self.plan.results and self.pieces == 1:
            self.store_results(kept)

    def store_results(self, kept: Index) -> None:
        with self.only(self.firsts()):
            self._store_results(kept)

    def _finish_pass(
        self, one: ReductionPass, gathered: Mapping[Node, Accumulator], kept: Index
    ) -> None:
        """The results of a pass, or what a stretch of it adds to them."""
        if self.pieces == 1:
            self.deliver(one, gathered, kept)
            return
        combine_partials.store(self, self._combine(gathered), kept)
        if self.finishes:
            combine_partials.finish(self, one, kept)

    def deliver(
        self, one: ReductionPass, gathered: Mapping[Node, Accumulator], kept: Index
    ) -> None:
        """The results of a pass, for all that reads them."""
        for r, values in self._combine(gathered).items():
            self._deliver(r, kept, rounded(self.elements, r, values))
        self._settle(one, kept)

    def firsts(self) -> list[Expr]:
        """What holds for one thread of each row."""
        first = build.apply(P.EQ, self.lane, build.index(0)) if self.width > 1 else None
        return [c for c in (self.there, first) if c is not None]

    @contextmanager
    def only(self, conditions: Sequence[Expr]) -> Iterator[None]:
        """What is done by threads for which all conditions hold."""
        if not conditions:
            yield
            return
        both = conditions[0]
        for condition in conditions[1:]:
            both = build.apply(P.AND, both, condition)
        with self.builder.when(both):
            yield

    def _is_long(self) -> bool:
        """Whether a thread has so many vectors of a row that it takes them in blocks."""
        length = self.length if self.pieces != 1 else upper_bound(self.vectors)
        return not self.written_out and length > BLOCK * self.width

    def _visits(self, gathered: Sequence[Accumulator]) -> Iterator[list[tuple[Expr, Expr | None]]]:
        """The vectors of a thread, as many at a time as are read together, each with whether it is
        there.
        """
        builder, width = self.builder, self.width
        if self.written_out:
            assert isinstance(self.vectors, int)
            found: list[tuple[Expr, Expr | None]] = []
            for first in range(0, self.vectors, width):
                vector = build.add(self.lane, first)
                whole = first + width <= self.vectors
                found.append(
                    (
                        vector,
                        None if whole else build.apply(P.LT, vector, build.index(self.vectors)),
                    )
                )
            yield found
            return
        start, length, even = self._stretch_of_piece()
        span = width * AHEAD
        main = build.mul(build.div(length, span), span)
        size = span * (BLOCK // AHEAD)
        with ExitStack() as around:
            begin: Expr = build.index(0)
            stop: Expr = main
            if self._is_long():
                begin = around.enter_context(builder.loop("block", 0, main, size))
                stop = build.add(begin, size)
                if not isinstance(main, Const) or int(main.value) % size:
                    stop = bounded(builder, build.apply(P.MIN, stop, main), build.bounds(main)[1])
                for accumulator in gathered:
                    around.enter_context(accumulator.block())
            with builder.loop("k", begin, stop, span) as k:
                yield [
                    (
                        builder.let(
                            "k", build.add(build.add(k, c * width), build.add(start, self.lane))
                        ),
                        None,
                    )
                    for c in range(AHEAD)
                ]
        if even % span == 0:
            return
        with ExitStack() as around:
            for accumulator in gathered:
                around.enter_context(accumulator.block())
            with builder.loop("k", main, length, width) as k:
                vector = builder.let("k", build.add(k, self.lane))
                inside = None if even % width == 0 else build.apply(P.LT, vector, length)
                yield [(build.add(start, vector), inside)]

    def _stretch_of_piece(self) -> tuple[Expr, Expr, int]:
        """Where a thread's vectors of a row begin, how many of them there are, and a number that
        divides that.
        """
        if self.pieces == 1:
            return build.index(0), build.lift(self.vectors), divisor(self.vectors)
        start = self.builder.let("start", build.mul(self.piece, self.length))
        if divisor(self.vectors) % self.length == 0:
            return start, build.index(self.length), self.length
        left = build.apply(P.MIN, build.index(self.length), build.sub(self.vectors, start))
        return start, bounded(self.builder, left, self.length), 1

    def cut(self, count: int) -> None:
        """From now on rows are cut into pieces, each with blocks of its own, that leave their parts
        in scratch memory. Where the target has tickets, the last block combines them."""
        self.finishes = arrival_counter.has_tickets(self.target)
        usual = size_hint(self.vectors)
        self.length = -(-usual // (max(1, count) * self.width)) * self.width
        span = self.width * AHEAD
        even = span * at_least(-(-self.length // span))
        if divisor(self.vectors) % even == 0:  # nothing to test for in the loops
            self.length = even
        self.pieces = ceil_div(self.vectors, self.length)
        self.written_out = False
        parts = self.pieces * volume(self.space.kept)
        (one,) = self.plan.passes
        self.scratch = {r: Scratch(r.type.dtype.compute, parts, "partial") for r in one.reductions}

    def _index(self, counters: Mapping[Run, Expr], vector: Expr) -> Index:
        """The index of a vector of a row."""
        if self.vector is None:
            return expand(counters, self.space.shape)
        found = dict(counters)
        others = [r for r in self.reduced if r is not self.vector]
        along = build.mod(vector, self.row_vectors) if others else vector
        rest = build.div(vector, self.row_vectors) if others else vector
        for run in reversed(others[1:]):
            found[run] = build.mod(rest, run.extent)
            rest = build.div(rest, run.extent)
        if others:
            found[others[0]] = rest
        found[self.vector] = build.ramp(build.mul(along, self.lanes), 1, self.lanes)
        return expand(found, self.space.shape)

    def _read(self, one: ReductionPass, counters: Mapping[Run, Expr], vector: Expr) -> None:
        """Names all that a pass does something with at one vector."""
        index, zero = self._index(counters, vector), build.index(0)
        self.at_vector = vector
        for node in dict.fromkeys(one.roots):
            self.elements.at(node, self.space.index(node, index, zero))

    def _vector(
        self,
        one: ReductionPass,
        counters: Mapping[Run, Expr],
        vector: Expr,
        gathered: Mapping[Node, Accumulator],
        homes: Mapping[Node, Buffer],
    ) -> None:
        """What one pass does with one vector; `self.elements.guard` says whether it is there."""
        index, zero, guard = self._index(counters, vector), build.index(0), self.elements.guard
        self.at_vector = vector
        for r, accumulator in gathered.items():
            values = [
                self.elements.at(x, self.space.index(x, index, zero)) for x in reduced_inputs(r)
            ]
            accumulator.add(
                0, values, self.lanes, None if guard is None else build.splat(guard, self.lanes)
            )
        if not homes and not one.stores:
            return
        with self.only([] if guard is None else [guard]):
            for node, buffer in homes.items():
                value = self.elements.at(node, self.space.index(node, index, zero))
                self.elements.store_to(buffer, self._home(vector), value)
            at = [(node, self.space.index(node, index, zero)) for node in one.stores]
            values = [self.elements.at(node, where) for node, where in at]
            for (node, where), value in zip(at, values, strict=True):
                self.elements.store(node, where, value)

    def _combine(self, gathered: Mapping[Node, Accumulator]) -> dict[Node, list[Expr]]:
        """Partial results of the threads of a row become results that all of them have."""
        parts = []
        for r, accumulator in gathered.items():
            assert isinstance(r.op, Reduce)
            (value,) = accumulator.exact(None)
            parts.append((numeric.COMBINE[r.op.combine], value))
        totals = self.here.across(parts, self.width)
        return {r: [total] for r, total in zip(gathered, totals, strict=True)}

    # ---- values kept between passes ----------------------------------------------------------

    def _kept_between(self) -> dict[int, dict[Node, Buffer]]:
        """SHARED memory for what later passes read again, by the pass that has it first; nothing
        where it does not fit.
        """
        passes = self.plan.passes
        if len(passes) < 2:
            return {}
        wanted: dict[int, list[Node]] = {}
        for number, one in enumerate(passes[:-1]):
            wanted[number] = [node for node in one.keep if node.shape == self.space.shape]
        again = read_again(self.group, self.plan, self.space, set().union(*wanted.values()))
        wanted[0] = [*wanted.get(0, []), *again]
        size = upper_bound(self.vectors) * self.lanes * self.side
        room = self.target.shared_bytes // 2
        found: dict[int, dict[Node, Buffer]] = {}
        for number, nodes in wanted.items():
            for node in nodes:
                dtype = node.type.dtype.compute
                if size * dtype.nbytes <= room:
                    room -= size * dtype.nbytes
                    found.setdefault(number, {})[node] = self.here.shared("row", dtype, size)
        return found

    def _home(self, vector: Expr) -> Expr:
        """Where a vector of a thread's row lies in SHARED memory."""
        place = build.mul(vector, self.lanes)
        if self.side > 1:
            row = build.div(self.here.thread, self.width)
            place = build.add(place, build.mul(row, upper_bound(self.vectors) * self.lanes))
        return build.ramp(place, 1, self.lanes)

    def _bind_home(self, node: Node, buffer: Buffer) -> None:
        self.elements.bind_value(
            node, lambda _: self.elements.load(buffer, self._home(self.at_vector))
        )
