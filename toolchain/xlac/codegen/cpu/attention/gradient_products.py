"""The products of an attention's derivative, for a block of queries and a tile of keys: scores and the
cotangents of weights, and what both add to the cotangents of queries, keys and values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xlac.codegen.core.attention_problem import AttentionProblem
from xlac.codegen.core.contraction.contraction import multiply, zero
from xlac.codegen.core.contraction.matrix_operand import Counters, MatrixOperand
from xlac.codegen.core.contraction.packing import Panels, each_panel, panels_before
from xlac.codegen.core.contraction.tiling import even_split
from xlac.codegen.core.elements import Elements
from xlac.codegen.schedules.attention import AttentionGradientSchedule
from xlac.ir.dims import divisor
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive


@dataclass(frozen=True, slots=True)
class KeySum:
    """A cotangent that every block of queries adds to: where it is summed, and where it goes."""

    place: MatrixOperand
    result: MatrixOperand


@dataclass(frozen=True, slots=True)
class GradientOperands:
    """What the derivative reads besides queries, keys and values, and what it gives: None where
    that is not wanted.
    """

    y: MatrixOperand
    ct: MatrixOperand
    keys: Panels
    values: Panels
    by_query: MatrixOperand | None
    by_key: KeySum | None
    by_value: KeySum | None


class GradientProducts:
    """What a kernel does with a tile, with the builder of `elements`.

    Of a block's queries there are `queries` and `given` (the cotangents of what they found), row by
    row, `tops`, `shares` (one over the sum of exponentials) and `means` (of the cotangents of
    weights), and `found`, their cotangents. `weights` and `changes` are those of the tile's scores.
    """

    queries: Buffer
    given: Buffer
    found: Buffer
    tops: Buffer
    shares: Buffer
    means: Buffer
    weights: Buffer
    changes: Buffer

    def __init__(
        self,
        elements: Elements,
        h: AttentionProblem,
        sides: GradientOperands,
        schedule: AttentionGradientSchedule,
        target: Target,
    ) -> None:
        self.elements, self.builder, self.h, self.sides = elements, elements.builder, h, sides
        self.schedule, self.target, self.dtype = schedule, target, h.dtype.compute
        self.height = schedule.tile.rows[1]

    def put(self, buffer: Buffer, at: Expr, value: Expr) -> None:
        """Stores values side by side."""
        where = build.ramp(at, 1, value.lanes) if value.lanes > 1 else at
        self.builder.store(buffer, where, build.cast(value, buffer.dtype))

    def summed(self, side: MatrixOperand) -> Buffer:
        """What a sum is kept in."""
        return self.elements.parameter(side.source.value, Access.REREAD)

    def key_at(self, side: MatrixOperand, batch: Counters, key: Expr, column: Expr) -> Expr:
        """Where an element of what a key has lies."""
        (step,) = side.depth
        return build.add(build.add(side.start(batch), build.mul(key, step)), column)

    def tile(
        self, batch: Counters, first: Expr, count: Expr, tall: Expr, k: Expr, here: Expr
    ) -> None:
        """The block that begins with query `first`, `count` of them in `tall` register tiles, and
        `here` keys from `k` on.
        """
        sides, blocks = self.sides, self.schedule
        self._multiply(batch, self.queries, sides.keys, self.weights, tall, k, here)
        self._multiply(batch, self.given, sides.values, self.changes, tall, k, here)
        self._weigh(batch, first, count, k, here)
        if sides.by_value is not None:
            to = sides.by_value.place
            self._add(batch, self.weights, self.given, to, blocks.value_lanes, count, k, here)
        if sides.by_key is not None:
            to = sides.by_key.place
            self._add(batch, self.changes, self.queries, to, blocks.query_lanes, count, k, here)
        if sides.by_query is not None:
            self._add_found(batch, tall, k, here)

    def _products(
        self, rows: int, vectors: int, lanes: int, depth: Expr,
        left: Callable[[Expr, int], Expr], right: Callable[[Expr, int], Expr],
        place: Callable[[int, int], Expr], to: Buffer, adds: bool = True,
    ) -> None:  # fmt: skip
        """A register tile of sums of products goes to a buffer, or is added to what is there."""
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
        self, batch: Counters, rows: Buffer, panels: Panels, to: Buffer,
        tall: Expr, k: Expr, here: Expr,
    ) -> None:  # fmt: skip
        """Products of the block's rows with each panel of the tile's keys."""
        builder, tile, keys, length = self.builder, self.schedule.tile, self.schedule.keys, self.h.length  # fmt: skip
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
                    self.height, vectors, tile.lanes, build.index(depth), left, right, place, to, False
                )  # fmt: skip

        stop = panels_before(build.add(k, here), length, tile)
        with builder.loop("p", build.div(k, tile.width), stop) as p:
            each_panel(builder, length, tile, p, panel)

    def _weigh(self, batch: Counters, first: Expr, count: Expr, k: Expr, here: Expr) -> None:
        """Makes weights of products, and of the cotangents of weights those of products; with what
        may not be seen, where there is any such thing.
        """
        h, builder = self.h, self.builder
        if h.mask is None and h.gap is None:
            self._rows(batch, first, count, k, here, masked=False)
            return
        if h.mask is not None:
            self._rows(batch, first, count, k, here, masked=True)
            return
        time = build.index(0) if h.shared > 1 else first  # no row of the block is earlier
        edge = builder.let("edge", build.apply(P.LT, build.add(time, (h.gap or 0) + 1), build.add(k, here)))  # fmt: skip
        for masked, condition in ((True, edge), (False, build.apply(P.NOT, edge))):
            with builder.when(condition):
                self._rows(batch, first, count, k, here, masked)

    def _rows(
        self, batch: Counters, first: Expr, count: Expr, k: Expr, here: Expr, masked: bool
    ) -> None:
        builder, wide, dtype, scale = self.builder, self.schedule.wide, self.dtype, self.h.scale
        with builder.loop("i", 0, count) as i:
            row = builder.let("row", build.add(first, i))
            top, share, mean = (
                builder.let("m", build.splat(build.load(b, i), wide))
                for b in (self.tops, self.shares, self.means)
            )
            with builder.loop("j", 0, here, wide) as j:
                place = build.add(build.mul(i, self.schedule.keys), j)
                product = builder.let("s", build.load(self.weights, place, wide))
                seen: list[Expr] = []
                if masked:
                    score, seen = self._seen(batch, row, build.ramp(build.add(k, j), 1, wide), product)  # fmt: skip
                else:
                    score = build.apply(P.MUL, product, Const(scale, dtype, wide))
                power = build.apply(P.EXP, build.apply(P.SUB, score, top))
                weight = builder.let("p", build.apply(P.MUL, power, share))
                self.put(self.weights, place, weight)
                change = build.apply(P.SUB, build.load(self.changes, place, wide), mean)
                change = build.apply(P.MUL, weight, change)
                for one in seen:
                    change = build.select(one, change, zero(dtype, wide))
                self.put(self.changes, place, build.apply(P.MUL, change, Const(scale, dtype, wide)))

    def _seen(
        self, batch: Counters, row: Expr, key: Expr, product: Expr
    ) -> tuple[Expr, list[Expr]]:
        """Scaled and masked scores, and where they are not hidden; the mask is not read past the
        last key.
        """
        h, end = self.h, build.lift(self.h.length)
        there = None
        if divisor(h.length) % self.schedule.wide:
            there = self.builder.let("there", build.apply(P.LT, key, end))
        with self.elements.guarded(there):
            score = h.scored(self.elements, batch, row, key, product, None)
            return self.builder.let("s", score), h.seen(self.elements, batch, row, key, None)

    def _add(
        self, batch: Counters, shares: Buffer, rows: Buffer, to: MatrixOperand, lanes: int,
        count: Expr, k: Expr, here: Expr,
    ) -> None:  # fmt: skip
        """Adds to each key of the tile the block's rows, by its share of each."""
        builder, keys, buffer, height = self.builder, self.schedule.keys, self.summed(to), self.height  # fmt: skip
        assert isinstance(to.size, int)
        size = to.size

        def some(at: Expr, tall: int) -> None:
            def chunk(column: Expr, vectors: int) -> None:
                start = builder.let("b", self.key_at(to, batch, build.add(k, at), column))
                self._products(
                    tall, vectors, lanes, count,
                    lambda e, i: build.load(shares, build.add(build.add(build.mul(e, keys), at), i)),
                    lambda e, v: build.load(rows, build.add(build.add(build.mul(e, size), column), v * lanes), lanes),
                    lambda i, v: build.add(build.add(start, to.depth[0] * i), v * lanes),
                    buffer,
                )  # fmt: skip

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

    def _add_found(self, batch: Counters, tall: Expr, k: Expr, here: Expr) -> None:
        """Adds to each query of the block the tile's keys, by the change of their scores."""
        builder, lanes, keys, width = self.builder, self.schedule.query_lanes, self.schedule.keys, self.h.widths[0]  # fmt: skip
        side = self.h.keys
        (step,) = side.depth
        base = builder.let("b", build.add(side.start(batch), build.mul(k, step)))
        buffer = self.elements.parameter(side.source.value, Access.READ)

        with builder.loop("r", 0, tall) as r:
            start = builder.let("r", build.mul(r, self.height))

            def chunk(column: Expr, vectors: int) -> None:
                def right(e: Expr, v: int) -> Expr:
                    where = build.add(build.add(base, build.mul(e, step)), build.add(column, v * lanes))  # fmt: skip
                    return build.cast(build.load(buffer, where, lanes), self.dtype)

                self._products(
                    self.height, vectors, lanes, here,
                    lambda e, i: build.load(self.changes, build.add(build.mul(build.add(start, i), keys), e)),
                    right,
                    lambda i, v: build.add(build.mul(build.add(start, i), width), build.add(column, v * lanes)),
                    self.found,
                )  # fmt: skip

            self._chunks(width, lanes, chunk)

    def _chunks(self, size: int, lanes: int, chunk: Callable[[Expr, int], None]) -> None:
        """A width in pieces of as many vectors as a register tile has, and what is left."""
        split = even_split(size // lanes, self.schedule.tile.vectors)
        step = split.step * lanes
        with self.builder.loop("v", 0, split.full * step, step) as column:
            chunk(column, split.step)
        if split.rest:
            chunk(build.index(split.full * step), split.rest)
