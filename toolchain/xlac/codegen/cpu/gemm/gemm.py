"""The register-blocked outer product: the kernel that most contractions become.

For every panel of columns and every tile of rows, one step of the sum loads the panel's vectors of
the right operand, broadcasts one element of the left for each row, and adds their products to
accumulators that stay in registers until the sum is complete. The epilogue then works on them
directly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

from xlac.codegen.core.contraction import Axis, Contraction, crowds, offset, unravel, zero
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.core.packing import Panels, each_panel
from xlac.codegen.core.partial_tiles import Waiting, places
from xlac.codegen.core.tiling import FEW_PRODUCTS, OpenTileSplit, TileSplit, unroll
from xlac.codegen.cpu.gemm import register_transpose
from xlac.codegen.cpu.gemm.cache_blocking import cut, loops
from xlac.codegen.cpu.gemm.prefetch import Ahead, ahead
from xlac.codegen.cpu.gemm.rank1_update import Step
from xlac.codegen.schedules.gemm import GemmSchedule
from xlac.ir.dims import Dim, Shape, size_hint, volume
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Buffer, Expr, LoopKind, Space, Var
from xlac_sdk.kernel_ir.primitives import Primitive


class OuterProduct:
    """Writes the kernel's body with the builder of `elements`, or the one that goes backward."""

    def __init__(
        self,
        elements: Elements,
        epilogue: Epilogue,
        c: Contraction,
        right: Panels,
        schedule: GemmSchedule,
        backward: bool = False,
    ) -> None:
        self.elements, self.builder, self.epilogue = elements, elements.builder, epilogue
        self.c, self.right, self.target, self.backward = c, right, elements.target, backward
        self.schedule, self.tile = schedule, schedule.tile
        self.cut = cut(c, schedule.tile, schedule.blocking)
        self.step = Step(elements, c, right, self.tile.lanes, schedule.hold)
        self.mask: Expr | None = None

    def write(self) -> None:
        """The loops over outer axes, blocks of rows, panels and pieces, fused into one that may run
        in parallel.
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

    def _turned(self, counter: Expr, stop: Dim, step: int) -> Expr:
        """The counter of a loop from 0, by steps, or from the last step down to 0."""
        return (
            self.builder.let("back", build.sub(stop - step, counter)) if self.backward else counter
        )

    def _panel(
        self, outer: list[Expr], piece: Expr, column: Expr, vectors: int, partial: build.Number
    ) -> None:
        """One panel of columns: all row tiles of a piece. `partial` columns of the last vector, 0
        when it is full.
        """
        builder, c = self.builder, self.c
        right = builder.let("b", self.right.base(outer, column, c.depth))
        left = offset(c.outer, outer, "left", c.left.offset)
        if partial != 0 and self.target.masked and self.tile.lanes > 1:
            counts = build.ramp(0, 1, self.tile.lanes)
            self.mask = builder.let("mask", build.apply(Primitive.LT, counts, build.lift(partial)))
        if self.cut.chunk:
            self._chunked(outer, piece, column, vectors, partial, left, right)
            return
        blocked, other = self.cut.axis, 1 - self.cut.axis

        def tile(first: Expr, height: int) -> None:
            def inner(second: Expr, length: int) -> None:
                start = (first, second) if blocked == 0 else (second, first)
                size = (height, length) if blocked == 0 else (length, height)
                self._tile(outer, start, size, column, vectors, partial, left, right)

            self._cover(self.cut.rows[other], None, inner)

        self._cover(self.cut.rows[blocked], piece if self.cut.pieces != 1 else None, tile)

    def _cover(
        self,
        split: TileSplit | OpenTileSplit,
        piece: Expr | None,
        emit: Callable[[Expr, int], None],
    ) -> None:
        """`emit(start, size)` for every tile of an axis, or of one piece of it."""
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
        """What whole tiles leave of an axis: one smaller tile, or as many as the call's size asks
        for.
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

    # ---- one tile ----------------------------------------------------------------------------

    def _tile(
        self,
        outer: list[Expr],
        start: tuple[Expr, Expr],
        size: tuple[int, int],
        column: Expr,
        vectors: int,
        partial: build.Number,
        left: Expr,
        right: Expr,
    ) -> None:
        c, builder, lanes = self.c, self.builder, self.tile.lanes
        base = builder.let("a", build.add(left, offset(c.rows, start, "left")))
        rows = [(i, j) for i in range(size[0]) for j in range(size[1])]
        steps = [c.rows[0].left * i + c.rows[1].left * j for i, j in rows]
        first, second = (
            build.div(at, split.step) for at, split in zip(start, self.cut.rows, strict=True)
        )
        number = build.add(build.mul(first, self.cut.rows[1].count), second)
        tiles_here = self.cut.block * self.cut.rows[1 - self.cut.axis].count
        after = self._ahead(right, c.depth, vectors * lanes, number, tiles_here)
        strides, inner = self.right.strides(vectors * lanes), c.inner
        cut = self.cut.blocks_of_sum
        if cut is None:
            sums: Sequence[Sequence[Expr]] = self._block(
                c.inner, base, steps, right, strides, vectors, partial, after
            )
            self._finish(sums, rows, outer, start, size, column, partial)
            return
        width = vectors * lanes
        waiting = Waiting.of(builder, c.accumulate, len(rows) * width, lanes, self.cut.block_count)
        where = places(build.index(0), width, len(rows), vectors, lanes)

        def block(a: Expr, b: Expr, length: Dim) -> None:
            axes = (replace(inner[cut.loop], extent=length), *inner[cut.loop + 1 :])
            found = self._block(axes, a, steps, b, strides[cut.loop :], vectors, partial, after)
            for at, total in zip(chain(*where), chain(*found), strict=True):
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

        level(0, base, right)
        kept = waiting.finish(len(rows) * width)
        sums = [
            [builder.let("c", build.load(kept, build.ramp(at, 1, lanes))) for at in row]
            for row in where
        ]
        self._finish(sums, rows, outer, start, size, column, partial)

    def _block(
        self,
        inner: tuple[Axis, ...],
        left: Expr,
        rows: list[Dim],
        right: Expr,
        strides: Shape,
        vectors: int,
        partial: build.Number,
        after: Ahead | None,
    ) -> list[list[Var]]:
        """The sums of the products along some axes, in registers."""
        sums = [
            [
                self.builder.variable("c", zero(self.c.accumulate, self.tile.lanes))
                for _ in range(vectors)
            ]
            for _ in rows
        ]
        self._sum(sums, inner, left, rows, right, strides, partial, after)
        return sums

    def _ahead(self, right: Expr, depth: Dim, width: int, tile: Expr, tiles: Dim) -> Ahead | None:
        """What a tile fetches of what follows `depth` steps of a panel from `right`."""
        if not self.schedule.prefetch or not isinstance(depth, int):
            return None
        return ahead(self.elements, self.right, right, depth * width, tile, tiles)

    def _chunked(
        self,
        outer: list[Expr],
        piece: Expr,
        column: Expr,
        vectors: int,
        partial: build.Number,
        left: Expr,
        right: Expr,
    ) -> None:
        """A panel whose sum is long: partial sums of the piece wait in memory while the next chunk
        is added.
        """
        c, builder, split, lanes, cut = (
            self.c,
            self.builder,
            self.cut.rows[1],
            self.tile.lanes,
            self.cut.blocks_of_sum,
        )
        assert cut is not None and isinstance(c.depth, int)
        width, height = vectors * lanes, self.cut.piece * split.step
        (axis,), (stride,), full = (
            c.inner,
            self.right.strides(vectors * lanes),
            c.depth // cut.turns,
        )
        first = build.mul(piece, height)
        waiting = Waiting.of(builder, c.accumulate, height * width, lanes, self.cut.block_count)

        def tiles_of(a: Expr, b: Expr, blocks: build.Number, number: Expr, length: int) -> None:
            """Adds `blocks` blocks of a length to the sums of every tile; the first has a number."""

            def tile(start: Expr, size: int) -> None:
                base = builder.let("a", build.add(a, build.mul(start, c.rows[1].left)))
                place = builder.let("place", build.mul(build.sub(start, first), width))
                rows = [c.rows[1].left * i for i in range(size)]
                after = self._ahead(
                    b, self.cut.chunk, width, build.div(start, split.step), self.cut.piece
                )
                with builder.loop("block", 0, blocks) as block:
                    a_here = builder.let(
                        "a", build.add(base, build.mul(block, axis.left * cut.turns))
                    )
                    b_here = builder.let("b", build.add(b, build.mul(block, stride * cut.turns)))
                    found = self._block(
                        (Axis(length, axis.left),),
                        a_here,
                        rows,
                        b_here,
                        (stride,),
                        vectors,
                        partial,
                        after,
                    )
                    for at, total in zip(
                        chain(*places(place, width, size, vectors, lanes)),
                        chain(*found),
                        strict=True,
                    ):
                        waiting.add(at, total)
                    waiting.group(place, size * width, build.add(number, block))

            self._cover(split, piece if self.cut.pieces != 1 else None, tile)

        many = self.cut.chunk // cut.turns
        with builder.loop("q", 0, full, many) as q:
            a_chunk = builder.let("a", build.add(left, build.mul(q, cut.turns * axis.left)))
            b_chunk = builder.let("b", build.add(right, build.mul(q, cut.turns * stride)))
            left_of = build.apply(Primitive.MIN, build.index(many), build.sub(full, q))
            tiles_of(
                a_chunk,
                b_chunk,
                many if full % many == 0 else bounded(builder, left_of, many),
                q,
                cut.turns,
            )
        if c.depth % cut.turns:
            whole = full * cut.turns
            tiles_of(
                build.add(left, axis.left * whole),
                build.add(right, stride * whole),
                1,
                build.index(full),
                c.depth - whole,
            )
        kept = waiting.finish(height * width)
        rows: Expr | int = height
        if (
            isinstance(split, OpenTileSplit)
            or size_hint(self.cut.blocks) * self.cut.parts * height > split.extent
        ):
            left_over = build.apply(
                Primitive.MIN, build.index(height), build.sub(split.extent, first)
            )
            rows = bounded(builder, left_over, height)
        scalars = partial if partial != 0 and self.mask is None else 0
        self._finish_rows(
            kept, outer, (build.index(0), first), (1, rows), column, vectors, partial, scalars
        )

    def _sum(
        self,
        sums: list[list[Var]],
        inner: tuple[Axis, ...],
        left: Expr,
        rows: list[Dim],
        right: Expr,
        strides: Shape,
        partial: build.Number,
        after: Ahead | None,
    ) -> None:
        """Adds every product of the tile to its accumulators: loops over the summed axes, the
        innermost unrolled.

        What comes `after` is fetched meanwhile.
        """
        builder = self.builder

        def level(depth: int, a: Expr, b: Expr) -> None:
            if depth == len(inner):
                self.step.write(sums, a, rows, b, self.mask if partial != 0 else None)
                return
            axis, stride = inner[depth], strides[depth]
            last = depth == len(inner) - 1
            few = len(rows) * len(sums[0]) <= FEW_PRODUCTS
            copies = unroll(axis.usual, self.schedule.unroll[0 if few else 1]) if last else 1
            if self.schedule.uncrowded and crowds(axis, rows, copies, self.target):
                copies = 1
            main = axis.extent // copies * copies
            rest = range(size_hint(main), axis.extent) if isinstance(axis.extent, int) else range(0)

            def single(k: int) -> None:
                level(depth + 1, build.add(a, axis.left * k), build.add(b, stride * k))

            for k_first in reversed(rest) if self.backward else ():
                single(k_first)
            with builder.loop("k", 0, main, copies) as k:
                k = self._turned(k, main, copies)
                a_here = build.add(a, build.mul(k, axis.left))
                b_here = build.add(b, build.mul(k, stride))
                if not last:
                    a_here, b_here = builder.let("a", a_here), builder.let("b", b_here)
                elif after is not None:
                    after.fetch(b_here, copies * size_hint(stride))
                for u in reversed(range(copies)) if self.backward else range(copies):
                    level(
                        depth + 1, build.add(a_here, axis.left * u), build.add(b_here, stride * u)
                    )
            for k_last in () if self.backward else rest:
                single(k_last)
            if not isinstance(axis.extent, int) and copies > 1:
                with builder.loop("k", main, axis.extent) as k:
                    level(
                        depth + 1,
                        build.add(a, build.mul(k, axis.left)),
                        build.add(b, build.mul(k, stride)),
                    )

        level(0, left, right)

    # ---- storing -----------------------------------------------------------------------------

    def _finish(
        self,
        sums: Sequence[Sequence[Expr]],
        rows: list[tuple[int, int]],
        outer: list[Expr],
        start: tuple[Expr, Expr],
        size: tuple[int, int],
        column: Expr,
        partial: build.Number,
    ) -> None:
        """The epilogue: written out, or a loop over rows when it is long or the last vector is not
        full.
        """
        vectors, lanes = len(sums[0]), self.tile.lanes
        scalars = partial if partial != 0 and self.mask is None else 0
        long = self.schedule.epilogue_loop and len(rows) * vectors > 2
        if not long and scalars == 0 and self.schedule.transposed_store and size[1] > 1:
            register_transpose.store(
                self.elements,
                self.epilogue,
                self.c,
                outer,
                start,
                size,
                column,
                sums,
                partial,
                self.mask,
            )
            return
        if not long and scalars == 0:
            for (i, j), totals in zip(rows, sums, strict=True):
                at_rows = (build.add(start[0], i), build.add(start[1], j))
                for v, total in enumerate(totals):
                    self._store(
                        outer,
                        at_rows,
                        build.add(column, v * lanes),
                        total,
                        partial != 0 and v == vectors - 1,
                    )
            return
        width = vectors * lanes
        kept = self.builder.local("s", self.c.accumulate, len(rows) * width)
        for row, totals in enumerate(sums):
            for v, total in enumerate(totals):
                self.builder.store(
                    kept,
                    build.ramp(row * width + v * lanes, 1, lanes),
                    total,
                    align=min(64, lanes * kept.dtype.nbytes),
                )
        self._finish_rows(kept, outer, start, size, column, vectors, partial, scalars)

    def _finish_rows(
        self,
        kept: Buffer,
        outer: list[Expr],
        start: tuple[Expr, Expr],
        size: tuple[int, Expr | int],
        column: Expr,
        vectors: int,
        partial: build.Number,
        scalars: build.Number,
    ) -> None:
        builder, lanes = self.builder, self.tile.lanes
        assert kept.space is Space.LOCAL
        with builder.loop("i", 0, size[0]) as i, builder.loop("j", 0, size[1]) as j:
            at_rows = (build.add(start[0], i), build.add(start[1], j))
            base = build.mul(build.add(build.mul(i, size[1]), j), vectors * lanes)
            for v in range(vectors - (scalars != 0)):
                value = build.load(kept, build.ramp(build.add(base, v * lanes), 1, lanes))
                self._store(
                    outer,
                    at_rows,
                    build.add(column, v * lanes),
                    value,
                    partial != 0 and v == vectors - 1,
                )
            if scalars != 0:
                first = (vectors - 1) * lanes
                with builder.loop("n", 0, scalars) as n:
                    value = build.load(kept, build.add(build.add(base, first), n))
                    at = self.c.place(outer, at_rows, build.add(build.add(column, first), n))
                    self.epilogue.store(self.elements, at, value)

    def _store(
        self, outer: list[Expr], rows: tuple[Expr, Expr], column: Expr, value: Expr, partial: bool
    ) -> None:
        at = self.c.place(outer, rows, build.ramp(column, 1, self.tile.lanes))
        with self.elements.masked(self.mask if partial else None):
            self.epilogue.store(self.elements, at, value)
