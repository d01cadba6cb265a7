"""A contraction whose sum is the outermost loop: blocks of both operands are copied to local arrays
and multiplied, while the sums of all tiles of a piece are in memory.
"""

from __future__ import annotations

from dataclasses import replace

from xlac.codegen.core.contraction.contraction import (
    Axis,
    Contraction,
    OperandSource,
    offset,
    unravel,
    zero,
)
from xlac.codegen.core.contraction.packing import Panels
from xlac.codegen.core.contraction.partial_tiles import Waiting, places
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.lowered_group import Scratch
from xlac.codegen.core.operands import OperandView
from xlac.codegen.core.run_copy import RunCopy, clear, row_length
from xlac.codegen.cpu.gemm.rank1_update import Rank1Update
from xlac.codegen.cpu.gemm.streamed_choice import block
from xlac.codegen.cpu.gemm.streamed_store import Piece, StreamedStore
from xlac.codegen.schedules.gemm import StreamedGemmSchedule
from xlac.ir.dims import size_hint, volume
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Buffer, Expr, LoopKind


class StreamedGemm(StreamedStore):
    """Writes the kernel's body with the builder of `elements`."""

    def __init__(
        self,
        elements: Elements,
        epilogue: Epilogue,
        c: Contraction,
        view: OperandView,
        schedule: StreamedGemmSchedule,
    ) -> None:
        super().__init__(elements, epilogue, c, view, schedule)
        self.steps, self.depth = block(c), size_hint(c.depth)
        self.blocks = -(-self.depth // self.steps)
        found = self.streams
        # the elements of a run, and of a row of columns, that a piece copies
        self.run = min(schedule.row_tiles * self.height, found.run)
        self.across = min(schedule.panels * self.width, self.columns)
        behind = (schedule.runs - 1) * self.run
        self.left_step = row_length(
            behind + schedule.row_tiles * self.height, c.accumulate, self.target
        )
        self.right_step = row_length(schedule.panels * self.width, c.accumulate, self.target)

    def write(self) -> None:
        """The loop over pieces, which may be parallel."""
        builder, schedule, found = self.builder, self.schedule, self.streams
        own = [self.c.outer[n].extent for n in found.outer]
        tiles, panels = -(-found.run // self.height), -(-self.columns // self.width)
        cuts = (
            (found.count, schedule.runs),
            (tiles, schedule.row_tiles),
            (panels, schedule.panels),
        )
        extents = [*own, *(-(-whole // most) for whole, most in cuts)]
        kind = LoopKind.PARALLEL if schedule.threads.loops else LoopKind.SERIAL
        grain = schedule.threads.grain
        with builder.loop("t", 0, volume(tuple(extents)), kind=kind, grain=grain) as t:
            *outer, run, down, across = unravel(builder, t, extents)
            firsts = [
                builder.let("first", build.mul(number, most))
                for number, (_, most) in zip((run, down, across), cuts, strict=True)
            ]
            many = [self._left_of(at, *cut) for at, cut in zip(firsts, cuts, strict=True)]
            row = builder.let("row", build.mul(firsts[1], self.height))
            column = builder.let("column", build.mul(firsts[2], self.width))
            self._piece(Piece(outer, firsts[0], row, column, *many))

    def _piece(self, piece: Piece) -> None:
        builder, schedule, dtype = self.builder, self.schedule, self.c.accumulate
        left = Scratch(dtype, self.left_step * self.steps, "rows")
        right = Scratch(dtype, self.right_step * self.steps, "columns")
        copies = [self._cleared(each) for each in (left, right)]
        c = replace(self.c, left=OperandSource(left, dtype))
        panels = Panels(OperandSource(right, dtype), (), c.inner, packed=True)
        update = Rank1Update(self.elements, c, panels, self.lanes, "right")
        each = self.height * self.width
        size = schedule.panels * schedule.runs * schedule.row_tiles * each
        waiting = Waiting.of(builder, dtype, size, self.lanes, self.blocks)
        with builder.loop("q", 0, self.blocks) as q:
            self._copy(piece, q, *copies)
            with (
                builder.loop("n", 0, piece.panels) as n,
                builder.loop("r", 0, piece.runs) as r,
                builder.loop("m", 0, piece.tiles) as m,
            ):
                row = build.add(build.mul(r, self.run), build.mul(m, self.height))
                a = builder.let("a", row)
                b = builder.let("b", build.mul(n, self.width))
                self._multiply(waiting, update, q, a, b, self._place(n, r, m))
        self._finish(piece, waiting.finish(size))

    def _cleared(self, scratch: Scratch) -> Buffer:
        """A local array of zeros: tiles at the end of rows and columns read what is not copied."""
        buffer, size = self.elements.local(scratch), size_hint(scratch.size)
        clear(self.builder, buffer, 0, size, self.target.lanes(scratch.dtype))
        return buffer

    def _multiply(
        self, waiting: Waiting, update: Rank1Update, q: Expr, a: Expr, b: Expr, place: Expr
    ) -> None:
        """Adds a block of the sum to a tile."""
        builder, vectors, height = self.builder, self.tile.vectors, self.height
        start = zero(self.c.accumulate, self.lanes)
        sums = [[builder.variable("c", start) for _ in range(vectors)] for _ in range(height)]
        with builder.loop("k", 0, self.steps, self.schedule.unroll) as k:
            for number in range(self.schedule.unroll):
                step = build.add(k, number)
                left = build.add(a, build.mul(step, self.left_step))
                right = build.add(b, build.mul(step, self.right_step))
                update.write(sums, left, range(height), right, None)
        where = places(place, self.width, height, vectors, self.lanes)
        for spots, totals in zip(where, sums, strict=True):
            for spot, total in zip(spots, totals, strict=True):
                waiting.add(spot, total)
        waiting.group(place, height * self.width, q)

    def _copy(self, piece: Piece, q: Expr, rows: Buffer, columns: Buffer) -> None:
        """Copies a block of the sum of both operands, with zeros behind its end."""
        builder = self.builder
        first = builder.let("first", build.mul(q, self.steps))
        steps = self._left_of(first, self.depth, self.steps)
        left, right = (RunCopy(self.elements, source) for source in (self.c.left, self.c.right))
        with builder.loop("k", 0, steps) as k:
            step = build.add(first, k)
            starts = [self._start(piece, side, step) for side in ("left", "right")]
            to = builder.let("to", build.mul(k, self.left_step))
            with builder.loop("r", 0, piece.runs) as r:
                *others, _ = self.streams.runs
                axes = [Axis(run.extent, run.stride) for run in others]
                at = unravel(builder, build.add(piece.run, r), [run.extent for run in others])
                source = build.add(build.add(starts[0], offset(axes, at, "left")), piece.row)
                there = build.sub(self.streams.run, piece.row)
                left.write(
                    rows,
                    build.add(to, build.mul(r, self.run)),
                    builder.let("x", source),
                    self.run,
                    self.run if self.streams.run % self.run == 0 else there,
                )
            right.write(
                columns,
                builder.let("to", build.mul(k, self.right_step)),
                builder.let("x", build.add(starts[1], piece.column)),
                self.across,
                self.across
                if self.columns % self.across == 0
                else build.sub(self.columns, piece.column),
            )
        if steps is not self.steps:
            for buffer, row in ((rows, self.left_step), (columns, self.right_step)):
                lanes = self.target.lanes(buffer.dtype)
                clear(builder, buffer, build.mul(steps, row), self.steps * row, lanes)

    def _start(self, piece: Piece, side: str, step: Expr) -> Expr:
        """The offset of a step of the sum in an operand."""
        own = [self.c.outer[n] for n in self.streams.outer]
        source = self.c.left if side == "left" else self.c.right
        inner = [axis for axis in self.c.inner if axis.extent != 1] or [Axis(1)]
        counters = unravel(self.builder, step, [a.extent for a in inner])
        base = offset(own, piece.outer, side, source.offset)
        return self.builder.let("x", build.add(base, offset(inner, counters, side)))
