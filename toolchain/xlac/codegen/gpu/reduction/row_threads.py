"""The distribution of a reduction's rows over the threads of a block, and the positions of a
thread's vectors.
"""

from __future__ import annotations

from collections.abc import Mapping

from xlac.codegen.core.access_analysis import Run, expand, merged
from xlac.codegen.core.kinds.reduction import ReductionValues
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.core.lowered_group import Scratch
from xlac.codegen.core.reduction_plan import ReductionSpace
from xlac.codegen.core.summation import BLOCK
from xlac.codegen.gpu.core.grid import GridThread, unravelled
from xlac.codegen.gpu.reduction.row_space import RowSpace
from xlac.codegen.schedules.gpu.reduction import (
    GpuReductionSchedule,
    GpuRowReductionSchedule,
    GpuSplitReductionSchedule,
)
from xlac.ir.dims import Dim, ceil_div, divisor, upper_bound, volume
from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive


def by_row(schedule: GpuReductionSchedule, space: ReductionSpace) -> bool:
    """Whether the vector loop is reduced."""
    if isinstance(schedule, GpuRowReductionSchedule) or schedule.vector is None:
        return isinstance(schedule, GpuRowReductionSchedule)
    return schedule.loops[schedule.vector][0] in space.reduced


class RowThreads(ReductionValues):
    """A thread's share: its row, its vectors, and the range of them in a piece of a split row."""

    here: GridThread  # the current thread of the kernel being written
    piece: Expr  # the number of the piece, if rows are split
    _along_rows = True  # whether the vector loop is reduced

    def follow(self, schedule: GpuReductionSchedule) -> None:
        """Sets the distribution from a schedule."""
        self.loops = merged(self.space.shape, self.survey, schedule.loops)
        number = schedule.vector if self.loops else None
        self.vector = None if number is None else self.loops[number]
        self.lanes = schedule.lanes
        self.part_lanes = 1 if self._along_rows else self.lanes  # scratch memory of partial results
        self.pieces: Dim = 1
        self._count(RowSpace(self.space, self.loops, self.vector, self.lanes, self._along_rows))
        self._share(schedule.width, schedule.threads)
        self.ahead = schedule.ahead
        self.written_out = False
        self.cached: tuple[int, ...] = ()
        if isinstance(schedule, GpuSplitReductionSchedule):
            self._cut(schedule)
            return
        self.written_out = schedule.written_out
        if isinstance(schedule, GpuRowReductionSchedule):
            self.cached = schedule.kept

    def _count(self, rows: RowSpace) -> None:
        """Computes the number of rows, and of vectors of each."""
        self.reduced, self.kept = rows.reduced, rows.kept
        # vectors of one traversal of the contiguous axis; vectors of a row; rows
        self.row_vectors, self.vectors, self.rows = rows.crossing, rows.vectors, rows.rows

    def _share(self, width: int, threads: int) -> None:
        """Sets the threads for each row, and of a block."""
        self.width, self.threads, self.side = width, threads, threads // width

    def _place_of_thread(self, block: Expr) -> tuple[Expr, Expr]:
        """The row of a thread, and its number among the threads of the row."""
        thread = self.here.thread
        row = build.add(build.mul(block, self.side), build.div(thread, self.width))
        return self.builder.let("row", row), self.builder.let("lane", build.mod(thread, self.width))

    def _counters(self, row: Expr) -> dict[Run, Expr]:
        return unravelled(self.builder, row, self.kept)

    def in_place(self) -> list[tuple[Node, Node]]:
        """Without results of whole rows where several threads share a row: the one that writes such
        a result may be ahead of others that read the operand.
        """
        pairs = super().in_place()
        if self.width == 1:
            return pairs
        return [pair for pair in pairs if pair[0] not in self.plan.results]

    def _is_long(self) -> bool:
        """Whether a thread has so many vectors of a row that it sums them in blocks."""
        length = self.length if self.pieces != 1 else upper_bound(self.vectors)
        return not self.written_out and length > BLOCK * self.width

    def _stretch_of_piece(self) -> tuple[Expr, Expr, int]:
        """The first of a thread's vectors of a row, the number of vectors in the piece, and a known
        divisor of that number.
        """
        if self.pieces == 1:
            return build.index(0), build.lift(self.vectors), divisor(self.vectors)
        start = self.builder.let("start", build.mul(self.piece, self.length))
        if divisor(self.vectors) % self.length == 0:
            return start, build.index(self.length), self.length
        left = build.apply(P.MIN, build.index(self.length), build.sub(self.vectors, start))
        return start, bounded(self.builder, left, self.length), 1

    def _cut(self, schedule: GpuSplitReductionSchedule) -> None:
        """Splits rows into pieces, each with its own blocks, that store partial results in scratch
        memory. The last block combines them, or a separate kernel does.
        """
        self.finishes = schedule.combine is None
        self.length = schedule.length
        self.pieces = ceil_div(self.vectors, self.length)
        parts = self.pieces * volume(self.space.kept)
        (one,) = self.plan.passes
        self.scratch = {r: Scratch(r.type.dtype.compute, parts, "partial") for r in one.reductions}

    def _index(self, counters: Mapping[Run, Expr], vector: Expr) -> Index:
        """The index of a vector of a row."""
        if self.vector is None:
            return expand(counters, self.space.shape)
        by_run = dict(counters)
        others = [r for r in self.reduced if r is not self.vector]
        along = build.mod(vector, self.row_vectors) if others else vector
        rest = build.div(vector, self.row_vectors) if others else vector
        for run in reversed(others[1:]):
            by_run[run] = build.mod(rest, run.extent)
            rest = build.div(rest, run.extent)
        if others:
            by_run[others[0]] = rest
        by_run[self.vector] = build.ramp(build.mul(along, self.lanes), 1, self.lanes)
        return expand(by_run, self.space.shape)
