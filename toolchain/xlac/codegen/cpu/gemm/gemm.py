"""The register-blocked outer product, the template of most contractions.

For every panel of columns and every tile of rows, one step of the sum loads the panel's vectors of
the right operand, broadcasts one element of the left for each row, and adds their products to
accumulators that stay in registers until the sum is complete. The epilogue then works on the
registers.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from xlac.codegen.core.contraction.contraction import offset, unravel
from xlac.codegen.core.contraction.packing import each_panel
from xlac.codegen.core.contraction.partial_tiles import Waiting, places
from xlac.codegen.cpu.gemm.cache_blocking import loops
from xlac.codegen.cpu.gemm.chunked_sums import ChunkedSums
from xlac.codegen.cpu.gemm.prefetch import PanelPrefetch
from xlac.codegen.cpu.gemm.tile_store import Panel
from xlac.ir.dims import Dim, Shape, volume
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Buffer, Expr, LoopKind
from xlac_sdk.kernel_ir.primitives import Primitive


class Gemm(ChunkedSums):
    """Writes the kernel's body with the builder of `elements`, or its variant that reads
    backwards.
    """

    def write(self) -> None:
        """The loops over outer axes, blocks of rows, panels and pieces, fused into one that may be
        parallel.
        """
        c, builder = self.c, self.builder
        extents = loops(c, self.cut)
        turns, threads = volume(tuple(extents)), self.schedule.threads
        kind = LoopKind.PARALLEL if threads.loops else LoopKind.SERIAL
        with builder.loop("t", 0, turns, kind=kind, grain=threads.grain) as t:
            *outer, block, panel, part = unravel(builder, self._turned(t, turns, 1), extents)
            piece = build.add(build.mul(block, self.cut.parts), part)

            def emit(column: Expr, vectors: int, partial: build.Number) -> None:
                self._panel(outer, piece, column, vectors, partial)

            each_panel(builder, c.columns.extent, self.tile, panel, emit)

    def _panel(
        self, outer: list[Expr], piece: Expr, column: Expr, vectors: int, partial: build.Number
    ) -> None:
        """One panel of columns: all row tiles of a piece. `partial` columns of the last vector are
        valid, 0 if all are.
        """
        builder, c = self.builder, self.c
        if self.unpacked is None:
            right = builder.let("b", self.right.base(outer, column, c.depth))
        elif self.cut.chunk:
            right = build.index(0)
        else:
            right = self._packed(outer, column, vectors, partial)
        left = offset(c.outer, outer, "left", c.left.offset)
        if partial != 0 and self.target.masked and self.tile.lanes > 1:
            counts = build.ramp(0, 1, self.tile.lanes)
            self.mask = builder.let("mask", build.apply(Primitive.LT, counts, build.lift(partial)))
        place = Panel(outer, column, vectors, partial, left, right)
        if self.cut.chunk:
            self._chunked(place, piece)
            return
        blocked, other = self.cut.axis, 1 - self.cut.axis

        def tile(first: Expr, height: int) -> None:
            def inner(second: Expr, length: int) -> None:
                start = (first, second) if blocked == 0 else (second, first)
                size = (height, length) if blocked == 0 else (length, height)
                self._tile(place, start, size)

            self._cover(self.cut.rows[other], None, inner)

        self._cover(self.cut.rows[blocked], piece if self.cut.pieces != 1 else None, tile)

    # ---- one tile ----------------------------------------------------------------------------

    def _tile(self, panel: Panel, start: tuple[Expr, Expr], size: tuple[int, int]) -> None:
        c, builder, lanes, vectors = self.c, self.builder, self.tile.lanes, panel.vectors
        base = builder.let("a", build.add(panel.left, offset(c.rows, start, "left")))
        rows = [(i, j) for i in range(size[0]) for j in range(size[1])]
        steps = [c.rows[0].left * i + c.rows[1].left * j for i, j in rows]
        after = self._after(panel.right, start, vectors * lanes)
        strides = self.right.strides(vectors * lanes)
        if self.cut.blocks_of_sum is None:
            sums = self._block(panel, c.inner, base, steps, panel.right, strides, after)
            self._finish(panel, sums, rows, start, size)
            return
        kept = self._block_by_block(panel, base, steps, strides, after)
        if self.schedule.transposed_store and self._scalars(panel) == 0 and size[1] > 1:
            where = places(build.index(0), vectors * lanes, len(rows), vectors, lanes)
            sums = [
                [builder.let("c", build.load(kept, build.ramp(at, 1, lanes))) for at in row]
                for row in where
            ]
            self._finish(panel, sums, rows, start, size)
        else:  # what is in memory already is finished row by row: shorter code, as fast
            self._finish_rows(panel, kept, start, size)

    def _after(self, right: Expr, start: tuple[Expr, Expr], width: int) -> PanelPrefetch | None:
        """The part of the next panel that the tile at `start` prefetches."""
        first, second = (
            build.div(at, split.step) for at, split in zip(start, self.cut.rows, strict=True)
        )
        number = build.add(build.mul(first, self.cut.rows[1].count), second)
        tiles_here = self.cut.block * self.cut.rows[1 - self.cut.axis].count
        return self._ahead(right, self.c.depth, width, number, tiles_here)

    def _block_by_block(
        self, panel: Panel, base: Expr, rows: list[Dim], strides: Shape, after: PanelPrefetch | None
    ) -> Buffer:
        """The sums of a tile if they are blocked, in memory: each block's sums are added to
        those there.
        """
        c, builder, lanes, inner = self.c, self.builder, self.tile.lanes, self.c.inner
        cut, vectors, width = self.cut.blocks_of_sum, panel.vectors, panel.vectors * lanes
        assert cut is not None
        waiting = Waiting.of(builder, c.accumulate, len(rows) * width, lanes, self.cut.block_count)
        where = places(build.index(0), width, len(rows), vectors, lanes)

        def block(a: Expr, b: Expr, length: Dim) -> None:
            axes = (replace(inner[cut.loop], extent=length), *inner[cut.loop + 1 :])
            sums = self._block(panel, axes, a, rows, b, strides[cut.loop :], after)
            for at, total in zip(chain(*where), chain(*sums), strict=True):
                waiting.add(at, total)

        def level(depth: int, a: Expr, b: Expr) -> None:
            axis, stride = inner[depth], strides[depth]
            turns = cut.turns if depth == cut.loop else 1
            full, rest = axis.extent // turns, axis.extent - axis.extent // turns * turns
            if rest != 0 and self.backward:
                block(
                    build.add(a, axis.left * (full * turns)),
                    build.add(b, stride * (full * turns)),
                    rest,
                )
            with builder.loop("k", 0, full) as counter:
                k = self._turned(counter, full, 1)
                a_here = builder.let("a", build.add(a, build.mul(k, axis.left * turns)))
                b_here = builder.let("b", build.add(b, build.mul(k, stride * turns)))
                if depth < cut.loop:
                    level(depth + 1, a_here, b_here)
                else:
                    block(a_here, b_here, turns)
                    waiting.group(build.index(0), len(rows) * width, counter)
            if rest != 0 and not self.backward:
                block(
                    build.add(a, axis.left * (full * turns)),
                    build.add(b, stride * (full * turns)),
                    rest,
                )
            if depth == cut.loop > 0:
                waiting.join(build.index(0), len(rows) * width)

        level(0, base, panel.right)
        return waiting.finish(len(rows) * width)

    # ---- stores ------------------------------------------------------------------------------
