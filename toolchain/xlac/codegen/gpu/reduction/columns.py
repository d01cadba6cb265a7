"""Reductions on a GPU whose contiguous axis is kept: adjacent threads have adjacent results.

A block is a rectangle of threads: as wide as a warp along the results, and as many rows as it takes
to keep the multiprocessors busy, which share the elements of each result and combine them through
SHARED memory. Reducers with a body have one thread for each result, which combines its elements in
order.
"""

from __future__ import annotations

from collections.abc import Mapping

from xlac.codegen.core.access_analysis import Run, expand
from xlac.codegen.core.accumulators import Accumulator, fixed, sums
from xlac.codegen.core.summation import BLOCK, Pair
from xlac.codegen.gpu.reduction.row_space import RowSpace
from xlac.codegen.gpu.reduction.rows import RowBlocks
from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac.ops import numeric
from xlac.ops.reduction.reduction import Reduce
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Buffer, Expr


class Columns(RowBlocks):
    """Writes the kernel. A row of `RowBlocks` is here a vector of results, and the row's vectors
    are positions along the reduced axes.
    """

    _along_rows = False

    def _count(self, rows: RowSpace) -> None:
        super()._count(rows)
        along = [self.vector] if self.vector else []
        self.runs_of_results = [r for r in self.kept if r is not self.vector] + along

    def _place_of_thread(self, block: Expr) -> tuple[Expr, Expr]:
        thread = self.here.thread
        row = build.add(build.mul(block, self.side), build.mod(thread, self.side))
        return self.builder.let("column", row), self.builder.let(
            "lane", build.div(thread, self.side)
        )

    def _counters(self, row: Expr) -> dict[Run, Expr]:
        counters: dict[Run, Expr] = {}
        for run in reversed(self.runs_of_results):
            count = run.extent // self.lanes if run is self.vector else run.extent
            own = (
                row
                if run is self.runs_of_results[0]
                else self.builder.let("o", build.mod(row, count))
            )
            counters[run] = (
                build.ramp(build.mul(own, self.lanes), 1, self.lanes) if run is self.vector else own
            )
            row = self.builder.let("o", build.div(row, count))
        return counters

    def _index(self, counters: Mapping[Run, Expr], vector: Expr) -> Index:
        by_run = dict(counters)
        for run in reversed(self.reduced[1:]):
            by_run[run] = build.mod(vector, run.extent)
            vector = build.div(vector, run.extent)
        if self.reduced:
            by_run[self.reduced[0]] = vector
        return expand(by_run, self.space.shape)

    def _combine(self, gathered: Mapping[Node, Accumulator]) -> dict[Node, list[Expr]]:
        own = {r: accumulator.exact(0) for r, accumulator in gathered.items()}
        if self.width == 1 or not gathered:
            return own
        builder, here = self.builder, self.here
        column = build.mul(build.mod(here.thread, self.side), self.lanes)
        parts: dict[Node, Buffer] = {}
        for r, (value,) in own.items():
            parts[r] = here.shared("parts", value.dtype, self.threads * self.lanes)
            place = build.ramp(build.mul(here.thread, self.lanes), 1, self.lanes)
            builder.store(parts[r], place, value, align=self.lanes * value.dtype.nbytes)
        builder.barrier()
        totals: dict[Node, list[Expr]] = {}
        for r, buffer in parts.items():
            assert isinstance(r.op, Reduce)
            total = builder.variable("total", self._part(buffer, column, build.index(0)))
            pair = Pair.of(builder, total) if sums(r) and self.width > BLOCK else None
            with builder.loop("w", 1, self.width) as w:
                part = self._part(buffer, column, w)
                if pair is not None:
                    pair.add(part)
                else:
                    builder.assign(total, build.apply(numeric.COMBINE[r.op.combine], total, part))
            totals[r] = [fixed(self.elements, pair.total() if pair else total)]
        return totals

    def _part(self, buffer: Buffer, column: Expr, w: Expr) -> Expr:
        place = build.add(build.mul(w, self.side * self.lanes), column)
        return build.load(
            buffer, build.ramp(place, 1, self.lanes), align=self.lanes * buffer.dtype.nbytes
        )
