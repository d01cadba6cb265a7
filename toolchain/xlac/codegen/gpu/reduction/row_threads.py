"""How the rows of a reduction are shared by the threads of a block, and where a thread's vectors lie."""

from __future__ import annotations

from collections.abc import Mapping

from xlac.codegen.core.access_analysis import Run, contiguous, expand, runs
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.kinds.reduction import ReductionValues
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.core.lowered_group import Scratch
from xlac.codegen.core.reduction_plan import ReductionSpace
from xlac.codegen.core.summation import BLOCK
from xlac.codegen.gpu.core.access_width import access_lanes
from xlac.codegen.gpu.core.grid import GridThread, at_least, unravelled
from xlac.codegen.gpu.reduction import arrival_counter
from xlac.codegen.gpu.reduction.threads_per_row import share
from xlac.fusion.group import is_immediate
from xlac.ir.dims import Dim, ceil_div, divisor, size_hint, upper_bound, volume
from xlac.ir.op import Index
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.kernel_ir.primitives import Primitive

AHEAD = 4  # vectors that a loop reads at once

REGISTERS = 32  # 32-bit registers of a thread that hold elements of its row
STEPS = 8  # vectors of a thread that are written out

P = Primitive


class RowThreads(ReductionValues):
    """The share of a thread: its row, its vectors, and the stretch of them that a piece is."""

    here: GridThread  # the kernel that is being written
    piece: Expr  # the number of a piece, where a row has several

    def __init__(self, elements: Elements, space: ReductionSpace) -> None:
        super().__init__(elements, space)
        self.loops = runs(space.shape, self.survey, self.borders())
        self.reduced = [r for r in self.loops if r.axes[0] in space.reduced]
        self.kept = [r for r in self.loops if r.axes[0] not in space.reduced]
        self.vector = max(
            self.loops,
            key=lambda r: (contiguous(r, self.survey, space.shape), r.axes),
            default=None,
        )
        self.by_row = self.vector is None or self.vector in self.reduced
        self._size()

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

    def _place_of_thread(self, block: Expr) -> tuple[Expr, Expr]:
        """The row of a thread, and its number among those that share it."""
        thread = self.here.thread
        row = build.add(build.mul(block, self.side), build.div(thread, self.width))
        return self.builder.let("row", row), self.builder.let("lane", build.mod(thread, self.width))

    def _counters(self, row: Expr) -> dict[Run, Expr]:
        return unravelled(self.builder, row, self.kept)

    def _is_long(self) -> bool:
        """Whether a thread has so many vectors of a row that it takes them in blocks."""
        length = self.length if self.pieces != 1 else upper_bound(self.vectors)
        return not self.written_out and length > BLOCK * self.width

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
