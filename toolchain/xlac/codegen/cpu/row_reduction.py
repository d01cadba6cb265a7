"""Groups around reductions: any number of passes over the reduced axes, with pointwise work before,
between and after.

A group has one *space*: the shape that its reductions read, of which they reduce some axes. For
every position of the kept axes, each pass traverses the reduced ones; pass k computes what needs
the results of the reductions of the passes before it (so a softmax takes three, a two-pass variance
two before its scaling). Values that are expensive to recompute are kept in a local buffer, or in
the row of an output.

The vector axis is the one along which most operands are contiguous. If it is reduced, lanes hold
partial results, several vectors of them, which are combined at the end: **sums of floats are
reassociated into lanes**, so they round differently than a sequential sum (usually with less
error). If it is kept, each lane is a separate result. Reducers with a body run in order, one
element at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from math import gcd

from xlac.codegen.core.access_analysis import Run, expand, merged
from xlac.codegen.core.accumulators import Accumulator, sums
from xlac.codegen.core.addressing import linear, row_major
from xlac.codegen.core.kinds.reduction import ReductionValues
from xlac.codegen.core.loop_nest import bounded, nest, piece, pieces_of
from xlac.codegen.core.reduction_plan import ReductionPass, reduced_inputs
from xlac.codegen.core.strip_mining import strip_mine
from xlac.codegen.core.summation import Blocks, blocks
from xlac.codegen.cpu.kept_rows import Home, on_stack
from xlac.codegen.schedules.reduction import ReductionSchedule, RowReductionSchedule
from xlac.ir.dims import Dim, Sym, ceil_div, divisor
from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Expr
from xlac_sdk.kernel_ir.primitives import Primitive


class Rows(ReductionValues):
    """Writes the loops of one group around reductions."""

    def follow(self, schedule: ReductionSchedule) -> None:
        """Sets the loops from a schedule."""
        self.loops = merged(self.space.shape, self.survey, schedule.loops)
        self.reduced = [r for r in self.loops if r.axes[0] in self.space.reduced]
        self.kept = [r for r in self.loops if r.axes[0] not in self.space.reduced]
        self.vector = self.loops[schedule.vector] if self.loops else None
        self.by_row = self.vector is None or self.vector in self.reduced
        self.lanes, self.join = schedule.lanes, schedule.join
        self.unroll = dict(enumerate(schedule.unroll))

    # ---- loops -------------------------------------------------------------------------------

    def write_loops(self, schedule: RowReductionSchedule) -> None:
        """All loops, from the outermost."""
        self.follow(schedule)
        self.homes_of = {self.group.nodes[one.value]: one.output for one in schedule.kept}
        builder, threads = self.builder, schedule.threads
        if self.by_row:
            with nest(builder, self.kept, threads) as counters:
                self._row(counters)
            return
        vector = self.vector
        assert vector is not None
        rest = [run for run in self.kept if run is not vector]
        if schedule.chunk:
            pieces = pieces_of(vector.extent, schedule.chunk)
            with nest(builder, [*rest, pieces], threads) as counters:
                start = build.mul(counters.pop(pieces), schedule.chunk)
                length = piece(builder, start, vector.extent, schedule.chunk)
                self._strip(counters, vector, start, length)
            return
        with nest(builder, rest, threads) as counters:
            self._strip(counters, vector, 0, vector.extent)

    def _strip(
        self, counters: dict[Run, Expr], vector: Run, start: build.Number, length: build.Number
    ) -> None:
        """A range of a loop over vectors of results."""

        def body(bases: Sequence[Expr], wide: int, mask: Expr | None) -> None:
            with self.elements.masked(mask):
                self._columns(counters, vector, bases, wide)

        strips = partial(strip_mine, self.builder, self.target, start, length, self.lanes)
        # every row is read for the remaining columns too: they are not padded to a long vector
        strips(self.unroll[0], body, self.join, join_rest=False)

    def _row(self, counters: Mapping[Run, Expr]) -> None:
        """All passes for one position of the kept axes; the vector axis is a reduced one."""
        vector, builder = self.vector, self.builder
        kept = expand(counters, self.space.shape)
        for number, one in enumerate(self.plan.passes):
            homes = self._homes(one)
            copies = self.unroll[number]
            others = [r for r in self.reduced if r is not vector]
            cut = self._blocks(one, others, vector, copies)
            gathered = {
                r: Accumulator(
                    self.elements, r, self.lanes, copies, tail=self._tail(), long=cut is not None
                )
                for r in one.reductions
            }
            inside = dict(counters)

            def body(
                bases: Sequence[Expr],
                wide: int,
                mask: Expr | None,
                one: ReductionPass = one,
                homes: Mapping[Node, Home] = homes,
                gathered: Mapping[Node, Accumulator] = gathered,
                inside: dict[Run, Expr] = inside,
            ) -> None:
                with self.elements.masked(mask):
                    for copy, base in enumerate(bases):
                        moving = {vector: build.ramp(base, 1, wide)} if vector else {}
                        index = expand({**inside, **moving}, self.space.shape)
                        self._step(one, index, gathered, copy, wide, mask)
                        for node, home in homes.items():
                            where = linear(index, home.strides, self.space.shape)
                            value = self.elements.at(node, index)
                            with self.elements.masked(None if home.whole else mask):
                                self.elements.store_to(home.buffer, where, value)

            with self._crossing(others, inside, cut, list(gathered.values())):
                if vector is None:
                    body([build.index(0)], 1, None)
                else:
                    within: _Within = nullcontext(self._stretch(vector))
                    if cut is not None and cut.loop == len(others):
                        size = cut.turns * self.lanes * copies
                        within = self._block(vector, size, list(gathered.values()))
                    with within as (start, length):
                        strips = partial(strip_mine, builder, self.target, start, length)
                        strips(self.lanes, copies, body, self.join, narrow=True)
            for r, accumulator in gathered.items():
                self._finish(r, accumulator, None, kept)
            for node, home in homes.items():
                self.elements.bind(node, home.buffer, home.strides, whole=home.whole)
            self._settle(one, kept)
        self._store_results(kept)

    def _tail(self) -> bool:
        """Whether the loop over the vector axis may end in a partial vector."""
        return (
            self.vector is not None
            and not self.target.masked
            and self.lanes > 1
            and divisor(self.vector.extent) % self.lanes > 0
        )

    def _stretch(self, run: Run) -> tuple[build.Number, build.Number]:
        """The start and length of the loop over a reduced run."""
        return 0, run.extent

    @contextmanager
    def _crossing(
        self,
        loops: Sequence[Run],
        counters: dict[Run, Expr],
        cut: Blocks | None = None,
        gathered: Sequence[Accumulator] = (),
    ) -> Iterator[None]:
        """Nested loops over reduced runs; one of them may be split into blocks for compensation."""
        if not loops:
            yield
            return
        with ExitStack() as around:
            start, length = self._stretch(loops[0])
            if cut is not None and cut.loop == 0:
                start, length = around.enter_context(self._block(loops[0], cut.turns, gathered))
            counter = around.enter_context(self.builder.loop("o", start, build.add(start, length)))
            counters[loops[0]] = counter
            with self._crossing(
                loops[1:], counters, replace(cut, loop=cut.loop - 1) if cut else None, gathered
            ):
                yield

    @contextmanager
    def _block(
        self, run: Run, size: int, gathered: Sequence[Accumulator]
    ) -> Iterator[tuple[build.Number, build.Number]]:
        """A loop over the blocks of a reduced run: the start and length of each."""
        start, length = self._stretch(run)
        with self.builder.loop("block", 0, length, size) as block, ExitStack() as inside:
            for accumulator in gathered:
                inside.enter_context(accumulator.block())
            whole = isinstance(length, int | Sym) and divisor(length) % size == 0
            by = gcd(
                size, divisor(length) if isinstance(length, int | Sym) else build.multiple(length)
            )
            rest = build.apply(Primitive.MIN, build.index(size), build.sub(length, block))
            left = size if whole else bounded(self.builder, rest, size, by=by)
            yield build.add(start, block), left

    def _blocks(
        self, one: ReductionPass, others: Sequence[Run], vector: Run | None = None, copies: int = 1
    ) -> Blocks | None:
        """How the loops of a pass, the innermost of them in vectors, are split so that no
        accumulator takes a long sum.
        """
        if not any(sums(r) for r in one.reductions):
            return None
        extents = [self._extent(run) for run in others]
        if vector is None:
            return blocks(extents)
        extent = self._extent(vector)
        return blocks([*extents, ceil_div(extent, self.lanes * copies)])

    def _extent(self, run: Run) -> Dim:
        """The length of the loop over a reduced run."""
        return run.extent

    def _finish(
        self, reduction: Node, accumulator: Accumulator, copy: int | None, index: Index
    ) -> None:
        """Finishes the partial results of one reduction after its loops."""
        self._deliver(reduction, index, accumulator.result(copy))

    def _columns(
        self, counters: Mapping[Run, Expr], vector: Run, bases: Sequence[Expr], wide: int
    ) -> None:
        """All passes for vectors of positions of the kept axes: each lane is a result."""
        at = [{**counters, vector: build.ramp(base, 1, wide)} for base in bases]
        for one in self.plan.passes:
            cut = self._blocks(one, self.reduced)
            gathered = {
                r: Accumulator(self.elements, r, wide, len(bases), long=cut is not None)
                for r in one.reductions
            }
            inside: dict[Run, Expr] = {}
            with self._crossing(self.reduced, inside, cut, list(gathered.values())):
                for copy, position in enumerate(at):
                    index = expand({**position, **inside}, self.space.shape)
                    self._step(one, index, gathered, copy, wide, None)
            for r, accumulator in gathered.items():
                for copy, position in enumerate(at):
                    self._finish(r, accumulator, copy, expand(position, self.space.shape))
            for position in at:
                self._settle(one, expand(position, self.space.shape))
        for position in at:
            self._store_results(expand(position, self.space.shape))

    # ---- one element -------------------------------------------------------------------------

    def _step(
        self,
        one: ReductionPass,
        index: Index,
        gathered: Mapping[Node, Accumulator],
        copy: int,
        wide: int,
        mask: Expr | None,
    ) -> None:
        """One pass on one vector of elements."""
        zero = build.index(0)
        for r, accumulator in gathered.items():
            values = [
                self.elements.at(x, self.space.index(x, index, zero)) for x in reduced_inputs(r)
            ]
            accumulator.add(copy, values, wide, mask)
        stores = [(node, self.space.index(node, index, zero)) for node in one.stores]
        values = [self.elements.at(node, at) for node, at in stores]
        for (node, at), value in zip(stores, values, strict=True):
            self.elements.store(node, at, value)

    # ---- values kept between passes ----------------------------------------------------------

    def _homes(self, one: ReductionPass) -> dict[Node, Home]:
        """Buffers for the values that this pass keeps, with their strides."""
        homes: dict[Node, Home] = {}
        others = [run for run in self.reduced if run is not self.vector]
        most = max(self.unroll.values()) if self.join else 1
        block = self.lanes * most if self.target.masked else 1
        for node in one.keep:
            if node not in self.homes_of:
                continue
            number = self.homes_of[node]
            if number is None:
                strides, size = on_stack(self.space.shape, self.vector, others, block)
                row = self.builder.local("row", node.type.dtype.compute, size)
                homes[node] = Home(row, strides, whole=True)
                continue
            output = self.group.outputs[number]
            self.borrowed.add(output)
            home = self.elements.parameter(output, Access.REREAD)
            homes[node] = Home(home, row_major(self.space.shape), whole=False)
        return homes


_Within = AbstractContextManager[tuple[build.Number, build.Number]]
