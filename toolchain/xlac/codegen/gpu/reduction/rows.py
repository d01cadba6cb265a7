"""Groups around reductions on a GPU whose contiguous axis is reduced (softmax, norms); `columns.py`
has the others.

A few lanes of a warp, a warp or a whole block reduces a row; each thread has vectors of it, strided
by the threads of the row, and partial results are combined by shuffles. A row that is short enough
stays in registers from the first pass to the last: its loops are unrolled, and later passes reuse
the named values. A longer one keeps in SHARED memory what later passes need, if it fits. The order
of summation depends only on the shapes and the target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from xlac.codegen.core.access_analysis import Run, expand
from xlac.codegen.core.accumulators import Accumulator, rounded
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.core.reduction_plan import ReductionPass, reduced_inputs
from xlac.codegen.core.summation import BLOCK
from xlac.codegen.gpu.core.grid import grid
from xlac.codegen.gpu.reduction import combine_partials
from xlac.codegen.gpu.reduction.row_cache import chosen_of
from xlac.codegen.gpu.reduction.row_threads import RowThreads
from xlac.ir.dims import ceil_div, divisor, upper_bound
from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac.ops import numeric
from xlac.ops.reduction.reduction import Reduce
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Buffer, Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive


class RowBlocks(RowThreads):
    """Writes the kernel of a group whose contiguous axis is reduced."""

    # ---- the kernel --------------------------------------------------------------------------

    def write(self) -> None:
        """One row, or a piece of one, for every `width` threads."""
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
        """Stores the nodes that follow from a row's reductions, by one thread of the row."""
        with self.only(self.firsts()):
            self._store_results(kept)

    def _finish_pass(
        self, one: ReductionPass, gathered: Mapping[Node, Accumulator], kept: Index
    ) -> None:
        """The results of a pass, or the partial results of a piece."""
        if self.pieces == 1:
            self.deliver(one, gathered, kept)
            return
        combine_partials.store(self, self._combine(gathered), kept)
        if self.finishes:
            combine_partials.finish(self, one, kept)

    def deliver(
        self, one: ReductionPass, gathered: Mapping[Node, Accumulator], kept: Index
    ) -> None:
        """Combines the results of a pass over the threads of a row."""
        for r, values in self._combine(gathered).items():
            self._deliver(r, kept, rounded(self.elements, r, values))
        self._settle(one, kept)

    def firsts(self) -> list[Expr]:
        """The conditions for a thread to be the first of its row."""
        first = build.apply(P.EQ, self.lane, build.index(0)) if self.width > 1 else None
        return [c for c in (self.there, first) if c is not None]

    @contextmanager
    def only(self, conditions: Sequence[Expr]) -> Iterator[None]:
        """A scope for threads for which all conditions hold."""
        if not conditions:
            yield
            return
        both = conditions[0]
        for condition in conditions[1:]:
            both = build.apply(P.AND, both, condition)
        with self.builder.when(both):
            yield

    def _visits(self, gathered: Sequence[Accumulator]) -> Iterator[list[tuple[Expr, Expr | None]]]:
        """The vectors of a thread, in batches that are loaded together, each with the condition for
        it to be inside.
        """
        builder, width = self.builder, self.width
        if self.written_out:
            assert isinstance(self.vectors, int)
            batch: list[tuple[Expr, Expr | None]] = []
            for first in range(0, self.vectors, width):
                vector = build.add(self.lane, first)
                whole = first + width <= self.vectors
                batch.append(
                    (
                        vector,
                        None if whole else build.apply(P.LT, vector, build.index(self.vectors)),
                    )
                )
            yield batch
            return
        start, length, even = self._stretch_of_piece()
        span = width * self.ahead
        main = build.mul(build.div(length, span), span)
        size = span * (BLOCK // self.ahead)
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
                    for c in range(self.ahead)
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

    def _read(self, one: ReductionPass, counters: Mapping[Run, Expr], vector: Expr) -> None:
        """Names all values of one vector that a pass uses."""
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
        """One pass on one vector; `self.elements.guard` is the condition for it to be inside."""
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
        """Combines the partial results of a row's threads to results that all of them have."""
        parts = []
        for r, accumulator in gathered.items():
            assert isinstance(r.op, Reduce)
            (value,) = accumulator.exact(None)
            parts.append((numeric.COMBINE[r.op.combine], value))
        totals = self.here.across(parts, self.width)
        return {r: [total] for r, total in zip(gathered, totals, strict=True)}

    # ---- values kept between passes ----------------------------------------------------------

    def _kept_between(self) -> dict[int, dict[Node, Buffer]]:
        """SHARED memory for values that later passes read again, by the first pass
        that has them.
        """
        size = upper_bound(self.vectors) * self.lanes * self.side
        buffers: dict[int, dict[Node, Buffer]] = {}
        for number, nodes in chosen_of(self.cached, self.group, self.plan, self.space).items():
            for node in nodes:
                buffer = self.here.shared("row", node.type.dtype.compute, size)
                buffers.setdefault(number, {})[node] = buffer
        return buffers

    def _home(self, vector: Expr) -> Expr:
        """The offset of a vector of a thread's row in SHARED memory."""
        place = build.mul(vector, self.lanes)
        if self.side > 1:
            row = build.div(self.here.thread, self.width)
            place = build.add(place, build.mul(row, upper_bound(self.vectors) * self.lanes))
        return build.ramp(place, 1, self.lanes)

    def _bind_home(self, node: Node, buffer: Buffer) -> None:
        self.elements.bind_value(
            node, lambda _: self.elements.load(buffer, self._home(self.at_vector))
        )
