"""The products in the gradient of attention, for a block of queries and a tile of keys: scores,
cotangents of weights, and the contributions of both to the cotangents of queries, keys and values.
"""

from __future__ import annotations

from collections.abc import Callable

from xlac.codegen.core.contraction.contraction import multiply, zero
from xlac.codegen.core.contraction.matrix_operand import Counters, MatrixOperand
from xlac.codegen.core.contraction.packing import Panels, each_panel, panels_before
from xlac.codegen.core.contraction.tiling import even_split
from xlac.codegen.cpu.attention.gradient_weights import GradientWeights
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive


class GradientProducts(GradientWeights):
    """Writes the products of a tile, its weights, and the sums of cotangents."""

    def summed(self, side: MatrixOperand) -> Buffer:
        """The type of a sum."""
        return self.elements.parameter(side.source.value, Access.REREAD)

    def key_at(self, side: MatrixOperand, batch: Counters, key: Expr, column: Expr) -> Expr:
        """The offset of an element of a key in an operand."""
        (step,) = side.depth
        return build.add(build.add(side.start(batch), build.mul(key, step)), column)

    def tile(
        self, batch: Counters, first: Expr, count: Expr, tall: Expr, k: Expr, here: Expr
    ) -> None:
        """One tile: the block that begins with query `first` (`count` queries in `tall` register
        tiles) and `here` keys from `k` on.
        """
        sides, blocks = self.sides, self.schedule
        self._multiply(batch, self.queries, sides.keys, self.weights, tall, k, here)
        self._multiply(batch, self.given, sides.values, self.changes, tall, k, here)
        self.weigh(batch, first, count, k, here)
        if sides.by_value is not None:
            to = sides.by_value.place
            self._add(batch, self.weights, self.given, to, blocks.value_lanes, count, k, here)
        if sides.by_key is not None:
            to = sides.by_key.place
            self._add(batch, self.changes, self.queries, to, blocks.query_lanes, count, k, here)
        if sides.by_query is not None:
            self._add_score_gradients(batch, tall, k, here)

    def _products(
        self,
        rows: int,
        vectors: int,
        lanes: int,
        depth: Expr,
        left: Callable[[Expr, int], Expr],
        right: Callable[[Expr, int], Expr],
        place: Callable[[int, int], Expr],
        to: Buffer,
        adds: bool = True,
    ) -> None:
        """A register tile of sums of products, stored to a buffer or added to it."""
        builder = self.builder
        sums = [
            [builder.variable("c", zero(self.dtype, lanes)) for _ in range(vectors)]
            for _ in range(rows)
        ]
        multiply(builder, self.target, sums, depth, left, right)
        for i, totals in enumerate(sums):
            for v, total in enumerate(totals):
                where = builder.let("w", place(i, v))
                value = build.apply(P.ADD, build.load(to, where, lanes), total) if adds else total
                self.put(to, where, value)

    def _multiply(
        self,
        batch: Counters,
        rows: Buffer,
        panels: Panels,
        to: Buffer,
        tall: Expr,
        k: Expr,
        here: Expr,
    ) -> None:
        """Products of the block's rows with each panel of the tile's keys."""
        builder, tile, keys, length = (
            self.builder,
            self.schedule.tile,
            self.schedule.keys,
            self.h.length,
        )
        depth = self.h.widths[panels is self.sides.values]
        buffer = self.elements.parameter(panels.source.value, Access.READ)

        def panel(column: Expr, vectors: int, partial: build.Number) -> None:
            (stride,) = panels.strides(vectors * tile.lanes)
            base = builder.let("b", panels.base(list(batch), column, depth))
            across = builder.let("c", build.sub(column, k))

            def right(e: Expr, v: int) -> Expr:
                step = build.add(base, build.mul(e, stride))
                return build.load(buffer, build.add(step, v * tile.lanes), tile.lanes)

            with builder.loop("r", 0, tall) as r:
                start = builder.let("r", build.mul(r, self.height))

                def left(e: Expr, i: int) -> Expr:
                    return build.load(rows, build.add(build.mul(build.add(start, i), depth), e))

                def place(i: int, v: int) -> Expr:
                    row = build.mul(build.add(start, i), keys)
                    return build.add(build.add(row, across), v * tile.lanes)

                self._products(
                    self.height,
                    vectors,
                    tile.lanes,
                    build.index(depth),
                    left,
                    right,
                    place,
                    to,
                    False,
                )

        stop = panels_before(build.add(k, here), length, tile)
        with builder.loop("p", build.div(k, tile.width), stop) as p:
            each_panel(builder, length, tile, p, panel)

    def _add(
        self,
        batch: Counters,
        shares: Buffer,
        rows: Buffer,
        to: MatrixOperand,
        lanes: int,
        count: Expr,
        k: Expr,
        here: Expr,
    ) -> None:
        """Adds to each key of the tile the block's rows, weighted by their `shares` of it."""
        builder, keys, buffer, height = (
            self.builder,
            self.schedule.keys,
            self.summed(to),
            self.height,
        )
        assert isinstance(to.size, int)
        size = to.size

        def some(at: Expr, tall: int) -> None:
            def chunk(column: Expr, vectors: int) -> None:
                start = builder.let("b", self.key_at(to, batch, build.add(k, at), column))
                self._products(
                    tall,
                    vectors,
                    lanes,
                    count,
                    lambda e, i: build.load(
                        shares, build.add(build.add(build.mul(e, keys), at), i)
                    ),
                    lambda e, v: build.load(
                        rows, build.add(build.add(build.mul(e, size), column), v * lanes), lanes
                    ),
                    lambda i, v: build.add(build.add(start, to.depth[0] * i), v * lanes),
                    buffer,
                )

            self._chunks(size, lanes, chunk)

        full = build.mul(build.div(here, height), height)
        with builder.loop("j", 0, full, height) as j:
            some(j, height)
        if isinstance(here, Const):
            if int(here.value) % height:
                some(full, int(here.value) % height)
            return
        with builder.loop("j", full, here) as j:
            some(j, 1)

    def _add_score_gradients(self, batch: Counters, tall: Expr, k: Expr, here: Expr) -> None:
        """Adds to each query of the block the tile's keys, weighted by the cotangents of their
        scores.
        """
        builder, lanes, keys, width = (
            self.builder,
            self.schedule.query_lanes,
            self.schedule.keys,
            self.h.widths[0],
        )
        side = self.h.keys
        (step,) = side.depth
        base = builder.let("b", build.add(side.start(batch), build.mul(k, step)))
        buffer = self.elements.parameter(side.source.value, Access.READ)

        with builder.loop("r", 0, tall) as r:
            start = builder.let("r", build.mul(r, self.height))

            def chunk(column: Expr, vectors: int) -> None:
                def right(e: Expr, v: int) -> Expr:
                    where = build.add(
                        build.add(base, build.mul(e, step)), build.add(column, v * lanes)
                    )
                    return build.cast(build.load(buffer, where, lanes), self.dtype)

                self._products(
                    self.height,
                    vectors,
                    lanes,
                    here,
                    lambda e, i: build.load(
                        self.changes, build.add(build.mul(build.add(start, i), keys), e)
                    ),
                    right,
                    lambda i, v: build.add(
                        build.mul(build.add(start, i), width), build.add(column, v * lanes)
                    ),
                    self.score_gradients,
                )

            self._chunks(width, lanes, chunk)

    def _chunks(self, size: int, lanes: int, chunk: Callable[[Expr, int], None]) -> None:
        """A width in chunks of as many vectors as a register tile has, and the remainder."""
        split = even_split(size // lanes, self.schedule.tile.vectors)
        step = split.step * lanes
        with self.builder.loop("v", 0, split.full * step, step) as column:
            chunk(column, split.step)
        if split.rest:
            chunk(build.index(split.full * step), split.rest)
