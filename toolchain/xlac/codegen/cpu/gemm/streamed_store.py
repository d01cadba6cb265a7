"""A piece of a result whose sums are in memory, as streaming leaves them, and its epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlac.codegen.core.contraction.contraction import Contraction, unravel, zero
from xlac.codegen.core.contraction.packing import transposed
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.core.operands import OperandView
from xlac.codegen.cpu.gemm.streamed_choice import streams
from xlac.codegen.schedules.gemm import StreamedGemmSchedule
from xlac.ir.dims import size_hint
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Buffer, Expr
from xlac_sdk.kernel_ir.primitives import Primitive


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the result: counters of the outer axes that the right operand has, its first run,
    row of a run, and column; and how many runs, tiles of rows and panels of columns it has.
    """

    outer: Sequence[Expr]
    run: Expr
    row: Expr
    column: Expr
    runs: build.Number
    tiles: build.Number
    panels: build.Number


class StreamedStore:
    """Stores the results of pieces with the builder of `elements`."""

    def __init__(
        self,
        elements: Elements,
        epilogue: Epilogue,
        c: Contraction,
        view: OperandView,
        schedule: StreamedGemmSchedule,
    ) -> None:
        self.elements, self.builder, self.epilogue = elements, elements.builder, epilogue
        self.c, self.schedule, self.tile = c, schedule, schedule.tile
        self.target = elements.target
        found = streams(c, view, self.target)
        assert found is not None
        self.streams, self.height = found, schedule.tile.rows[1]
        self.width, self.lanes = schedule.tile.width, schedule.tile.lanes
        self.columns = size_hint(c.columns.extent)

    def _left_of(self, first: Expr, whole: int, most: int) -> build.Number:
        """How many of `whole` items a piece of at most `most` has, that begins at `first`."""
        if whole % most == 0:
            return most
        left = build.apply(Primitive.MIN, build.index(most), build.sub(whole, first))
        return bounded(self.builder, left, most, 1)

    def _place(self, panel: Expr, run: Expr, tile: Expr) -> Expr:
        """Where the sums of a tile of the piece are."""
        number = build.add(build.mul(panel, self.schedule.runs), run)
        number = build.add(build.mul(number, self.schedule.row_tiles), tile)
        return self.builder.let("place", build.mul(number, self.height * self.width))

    def _finish(self, piece: Piece, kept: Buffer) -> None:
        """The epilogue of all results of a piece."""
        builder, found, height = self.builder, self.streams, self.height
        with (
            builder.loop("r", 0, piece.runs) as r,
            builder.loop("m", 0, piece.tiles) as m,
            builder.loop("n", 0, piece.panels) as n,
        ):
            place = self._place(n, r, m)
            column = build.add(piece.column, build.mul(n, self.width))
            row = builder.let("row", build.add(piece.row, build.mul(m, height)))
            rows = self._left_of(row, found.run, height)
            others = [run.extent for run in found.runs[:-1]]
            at = unravel(builder, build.add(piece.run, r), others)
            if self.schedule.transposed_store:
                self._finish_squares(kept, piece, at, place, row, rows, column)
                return
            with builder.loop("i", 0, rows) as i:
                outer, pair = self._counters(piece, at, build.add(row, i))
                base = build.add(place, build.mul(i, self.width))
                for v in range(self.tile.vectors):
                    spot = build.add(base, v * self.lanes)
                    self._store(kept, spot, outer, pair, build.add(column, v * self.lanes))

    def _finish_squares(
        self,
        kept: Buffer,
        piece: Piece,
        at: Sequence[Expr],
        place: Expr,
        row: Expr,
        rows: build.Number,
        column: Expr,
    ) -> None:
        """The epilogue of a tile whose results are contiguous along rows: squares of vectors are
        transposed in registers.
        """
        builder, lanes, height = self.builder, self.lanes, self.height
        counts = build.ramp(0, 1, lanes)
        with builder.loop("j", 0, self.width, lanes) as j:
            for first in range(0, height, lanes):
                spots = [
                    build.add(place, build.add(build.mul(first + n, self.width), j))
                    for n in range(min(lanes, height - first))
                ]
                square = [
                    builder.let("s", build.load(kept, build.ramp(s, 1, lanes))) for s in spots
                ]
                square += [zero(kept.dtype, lanes)] * (lanes - len(square))
                left = build.sub(build.lift(rows), first)
                below = build.apply(Primitive.LT, counts, build.splat(left, lanes))
                mask = builder.let("mask", below)
                down = build.ramp(build.add(row, first), 1, lanes)
                outer, pair = self._counters(piece, at, down)
                for lane, along in enumerate(transposed(builder, square)):
                    with self.elements.masked(mask):
                        across = build.add(build.add(column, j), lane)
                        self.epilogue.store(self.elements, self.c.place(outer, pair, across), along)

    def _counters(
        self, piece: Piece, at: Sequence[Expr], row: Expr
    ) -> tuple[list[Expr], tuple[Expr, Expr]]:
        """The counters of the contraction's outer axes and of its rows."""
        found: dict[int, Expr] = dict(zip(self.streams.outer, piece.outer, strict=True))
        for run, place in zip(self.streams.runs, [*at, row], strict=True):
            found |= zip(run.loops, unravel(self.builder, place, run.extents), strict=True)
        count = len(self.c.outer)
        counters = [found.get(n, build.index(0)) for n in range(count + 2)]
        return counters[:count], (counters[count], counters[count + 1])

    def _store(
        self, kept: Buffer, at: Expr, outer: Sequence[Expr], rows: tuple[Expr, Expr], column: Expr
    ) -> None:
        """One vector of columns of a row; those behind the end are left out."""
        builder, lanes = self.builder, self.lanes

        def store(spot: Expr, column: Expr, wide: int) -> None:
            value = build.load(kept, build.ramp(spot, 1, wide))
            place = self.c.place(outer, rows, build.ramp(column, 1, wide))
            self.epilogue.store(self.elements, place, value)

        if self.columns % self.width == 0:
            store(at, column, lanes)
            return
        with builder.when(build.apply(Primitive.LT, column, build.index(self.columns))):
            left = self._left_of(column, self.columns, lanes)
            if isinstance(left, int):
                store(at, column, lanes)
            elif self.target.masked and lanes > 1:
                counts = build.ramp(0, 1, lanes)
                mask = build.apply(Primitive.LT, counts, build.splat(build.lift(left), lanes))
                with self.elements.masked(builder.let("mask", mask)):
                    store(at, column, lanes)
            else:
                with builder.loop("n", 0, left) as n:
                    store(build.add(at, n), build.add(column, n), 1)
