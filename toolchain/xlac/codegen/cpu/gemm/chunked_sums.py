"""Long sums of a panel: partial sums of its rows are kept in memory while the sum is computed chunk
by chunk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain

from xlac.codegen.core.contraction.contraction import Axis, Contraction, offset
from xlac.codegen.core.contraction.panel_copy import PanelCopy, transposing_pays
from xlac.codegen.core.contraction.partial_tiles import Waiting, places
from xlac.codegen.core.contraction.tiling import OpenTileSplit, TileSplit
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.core.lowered_group import Scratch
from xlac.codegen.cpu.gemm.tile_store import Panel
from xlac.codegen.cpu.gemm.tile_sums import TileSums
from xlac.ir.dims import size_hint
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Buffer, Expr
from xlac_sdk.kernel_ir.primitives import Primitive

FIRST = build.index(0)


class ChunkedSums(TileSums):
    """Loops over the row tiles of a piece, and over the chunks of a long sum."""

    # the contraction before its right operand is packed, where panels are packed one by one
    unpacked: Contraction | None = None

    def _packed(
        self,
        outer: list[Expr],
        column: Expr,
        vectors: int,
        partial: build.Number,
        first: Expr = FIRST,
        steps: int | None = None,
    ) -> Expr:
        """Packs a panel into a local array, or the `steps` of its sum after the `first` ones;
        returns where it begins.
        """
        panel, c = self.right.source.value, self.unpacked
        assert isinstance(panel, Scratch) and c is not None
        start = offset(c.outer, outer, "right", c.right.offset)
        if steps is not None:
            (axis,) = c.inner
            start = build.add(start, build.mul(first, axis.right))
            c = replace(c, inner=(replace(axis, extent=steps),))
        transposes = transposing_pays(c, self.tile, self.target)
        given = (self.elements, c, self.tile, panel.dtype)
        copy = PanelCopy(*given, transposes=transposes, prefetch=False)
        copy.write(self.elements.local(panel), start, FIRST, column, vectors, partial)
        return FIRST

    def _cover(
        self,
        split: TileSplit | OpenTileSplit,
        piece: Expr | None,
        emit: Callable[[Expr, int], None],
    ) -> None:
        """Calls `emit(start, size)` for every tile of an axis, or of one piece of it."""
        builder = self.builder
        end = split.full * split.step
        if piece is None:
            with builder.loop("m", 0, end, split.step) as m:
                emit(m, split.step)
            self._cover_rest(split, emit)
            return
        size = self.cut.piece * split.step
        start = build.mul(piece, size)
        stop = build.add(start, size)
        if not isinstance(end, int) or end < size_hint(self.cut.blocks) * self.cut.parts * size:
            stop = bounded(builder, build.apply(Primitive.MIN, stop, build.lift(end)), end)
        with builder.loop("m", start, stop, split.step) as m:
            emit(m, split.step)
        if isinstance(split, OpenTileSplit) or split.rest:
            with builder.when(build.apply(Primitive.EQ, piece, build.lift(self.cut.pieces - 1))):
                self._cover_rest(split, emit)

    def _cover_rest(
        self, split: TileSplit | OpenTileSplit, emit: Callable[[Expr, int], None]
    ) -> None:
        """The remainder of an axis after full tiles: one smaller tile, or as many as a dynamic size
        needs.
        """
        if isinstance(split, TileSplit):
            if split.rest:
                emit(build.index(split.full * split.step), split.rest)
            return
        first = split.full * split.step
        for size in split.smaller:
            after = first + (split.extent - first) // size * size
            with self.builder.loop("m", first, after, size) as m:
                emit(m, size)
            first = after

    def _add_blocks(
        self,
        panel: Panel,
        waiting: Waiting,
        piece: Expr,
        first: Expr,
        at: tuple[Expr, Expr],
        blocks: build.Number,
        number: Expr,
        length: int,
    ) -> None:
        """Adds `blocks` blocks of `length` steps, starting at an offset in both operands, to the
        sums of every tile of a piece; `number` counts the blocks before.
        """
        c, builder, split, lanes = self.c, self.builder, self.cut.rows[1], self.tile.lanes
        cut, vectors, width = self.cut.blocks_of_sum, panel.vectors, panel.vectors * lanes
        assert cut is not None
        (axis,), (stride,) = c.inner, self.right.strides(width)

        def tile(start: Expr, size: int) -> None:
            base = builder.let("a", build.add(at[0], build.mul(start, c.rows[1].left)))
            place = builder.let("place", build.mul(build.sub(start, first), width))
            rows = [c.rows[1].left * i for i in range(size)]
            turn = build.div(start, split.step)
            after = self._ahead(at[1], self.cut.chunk, width, turn, self.cut.piece)
            with builder.loop("block", 0, blocks) as block:
                a = builder.let("a", build.add(base, build.mul(block, axis.left * cut.turns)))
                b = builder.let("b", build.add(at[1], build.mul(block, stride * cut.turns)))
                axes = (Axis(length, axis.left),)
                sums = self._block(panel, axes, a, rows, b, (stride,), after)
                where = places(place, width, size, vectors, lanes)
                for spot, total in zip(chain(*where), chain(*sums), strict=True):
                    waiting.add(spot, total)
                waiting.group(place, size * width, build.add(number, block))

        self._cover(split, piece if self.cut.pieces != 1 else None, tile)

    def _chunked(self, panel: Panel, piece: Expr) -> None:
        """A panel with a long sum: partial sums of the piece are kept in memory while the chunks
        are added.
        """
        c, builder, split, lanes = self.c, self.builder, self.cut.rows[1], self.tile.lanes
        cut = self.cut.blocks_of_sum
        assert cut is not None and isinstance(c.depth, int)
        width, height = panel.vectors * lanes, self.cut.piece * split.step
        (axis,), (stride,), full = c.inner, self.right.strides(width), c.depth // cut.turns
        first = build.mul(piece, height)
        waiting = Waiting.of(builder, c.accumulate, height * width, lanes, self.cut.block_count)

        def add(a: Expr, b: Expr, blocks: build.Number, number: Expr, length: int) -> None:
            self._add_blocks(panel, waiting, piece, first, (a, b), blocks, number, length)

        def chunk(q: Expr, blocks: build.Number, length: int) -> None:
            a = builder.let("a", build.add(panel.left, build.mul(q, cut.turns * axis.left)))
            if self.unpacked is None:
                b = builder.let("b", build.add(panel.right, build.mul(q, cut.turns * stride)))
            else:
                assert isinstance(blocks, int)
                start = build.mul(q, cut.turns)
                columns = panel.column, panel.vectors, panel.partial
                b = self._packed(panel.outer, *columns, start, blocks * length)
            add(a, b, blocks, q, length)

        many = self.cut.chunk // cut.turns
        even = full % many == 0 or self.unpacked is not None
        whole = full // many * many if even else full  # packed chunks have known lengths
        with builder.loop("q", 0, whole, many) as q:
            left_of = build.apply(Primitive.MIN, build.index(many), build.sub(full, q))
            chunk(q, many if even else bounded(builder, left_of, many), cut.turns)
        if whole < full:
            chunk(build.index(whole), full - whole, cut.turns)
        if c.depth % cut.turns:
            chunk(build.index(full), 1, c.depth - full * cut.turns)
        self._finish_piece(panel, waiting.finish(height * width), first)

    def _finish_piece(self, panel: Panel, kept: Buffer, first: Expr) -> None:
        """The epilogue of the rows of a piece."""
        split = self.cut.rows[1]
        height = self.cut.piece * split.step
        rows: Expr | int = height
        if (
            isinstance(split, OpenTileSplit)
            or size_hint(self.cut.blocks) * self.cut.parts * height > split.extent
        ):
            left_over = build.apply(
                Primitive.MIN, build.index(height), build.sub(split.extent, first)
            )
            rows = bounded(self.builder, left_over, height)
        self._finish_rows(panel, kept, (build.index(0), first), (1, rows))
