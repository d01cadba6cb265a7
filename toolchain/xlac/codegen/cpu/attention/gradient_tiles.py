"""The loops in the gradient of attention: blocks of queries of one key head against tiles of its
keys.
"""

from __future__ import annotations

from xlac.codegen.core.contraction.contraction import multiply_add, unravel, zero
from xlac.codegen.core.contraction.matrix_operand import Counters, MatrixOperand, apart
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.cpu.attention.gradient_products import GradientProducts
from xlac.codegen.cpu.attention.gradient_weights import KeySum
from xlac.ir.dims import ceil_div, divisor, volume
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Const, Expr, LoopKind
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive


class GradientTiles(GradientProducts):
    """Writes the kernel's body with the builder of `elements`."""

    def write(self) -> None:
        """Loops over key heads."""
        h, builder, threads = self.h, self.builder, self.schedule.threads
        kind = LoopKind.PARALLEL if threads.loops else LoopKind.SERIAL
        with builder.loop("t", 0, volume(h.batch), kind=kind, grain=threads.grain) as t:
            batch = unravel(builder, t, h.batch)
            for one, lanes in self._sums():
                self._each(batch, one.place, None, lanes)
            with builder.loop("b", 0, ceil_div(h.rows, self.schedule.rows)) as block:
                self._block(batch, builder.let("first", build.mul(block, self.schedule.rows)))
            for one, lanes in self._sums():
                if one.result is not one.place:
                    self._each(batch, one.result, one.place, lanes)

    def _sums(self) -> list[tuple[KeySum, int]]:
        sides, blocks = self.sides, self.schedule
        sums_and_lanes = ((sides.by_key, blocks.query_lanes), (sides.by_value, blocks.value_lanes))
        return [(one, lanes) for one, lanes in sums_and_lanes if one is not None]

    def _each(
        self, batch: Counters, to: MatrixOperand, source: MatrixOperand | None, lanes: int
    ) -> None:
        """For every key, zeros or a copy of another buffer."""
        builder = self.builder
        with builder.loop("j", 0, self.h.length) as j, builder.loop("e", 0, to.size, lanes) as e:
            value: Expr = zero(self.dtype, lanes)
            if source is not None:
                value = build.load(self.summed(source), self.key_at(source, batch, j, e), lanes)
            self.put(self.summed(to), self.key_at(to, batch, j, e), value)

    # ---- a block of queries ------------------------------------------------------------------

    def _block(self, batch: Counters, first: Expr) -> None:
        h, blocks, builder = self.h, self.schedule, self.builder
        count, tall = build.lift(blocks.rows), build.lift(blocks.tiles)
        if divisor(h.rows) % blocks.rows:
            count = bounded(
                builder, build.apply(P.MIN, count, build.sub(h.rows, first)), blocks.rows, 1
            )
            tall = build.div(build.add(count, self.height - 1), self.height)
            tall = bounded(builder, tall, blocks.tiles, 1)
        self._begin(batch, first, tall)
        end, keys = self._end(first), blocks.keys
        whole = h.length // keys * keys
        stop = end if isinstance(end, Const) else build.apply(P.MIN, end, build.lift(whole))
        if whole:
            stop = build.lift(whole) if isinstance(end, Const) else builder.let("stop", stop)
            with builder.loop("k", 0, stop, keys) as k:
                self.tile(batch, first, count, tall, k, build.lift(keys))
        if divisor(h.length) % keys:
            left = build.sub(h.length, whole)
            left = left if isinstance(left, Const) else bounded(builder, left, keys)
            there = build.apply(P.LT, build.lift(whole), end)
            with builder.when(build.apply(P.AND, there, build.apply(P.LT, build.index(0), left))):
                self.tile(batch, first, count, tall, build.lift(whole), left)
        if self.sides.by_query is not None:
            self._store(batch, first, count, self.sides.by_query)

    def _begin(self, batch: Counters, first: Expr, tall: Expr) -> None:
        """The block's queries and the cotangents of what they found side by side, what of their
        weights is known, and nothing summed. A row past the last is a copy of it.
        """
        builder, blocks, (width, wide) = self.builder, self.schedule, self.h.widths
        rows = blocks.rows
        self.queries = builder.local("q", self.dtype, rows * width)
        self.given = builder.local("g", self.dtype, rows * wide)
        self.score_gradients = builder.local("d", self.dtype, rows * width)
        self.tops, self.shares, self.means = (builder.local(n, self.dtype, rows) for n in "msd")
        self.weights, self.changes = (
            builder.local(n, self.dtype, rows * blocks.keys) for n in "pc"
        )
        if self._partly_written():
            with builder.loop("z", 0, rows * blocks.keys, blocks.tile.lanes) as z:
                for buffer in (self.weights, self.changes):
                    self.put(buffer, z, zero(self.dtype, blocks.tile.lanes))
        with builder.loop("i", 0, build.mul(tall, self.height)) as i:
            row = self._row(build.add(first, i))
            self._copied(batch, row, self.h.queries, self.queries, i, blocks.query_lanes)
            self._mean(batch, row, i)
            with builder.loop("e", 0, width, blocks.query_lanes) as e:
                place = build.add(build.mul(i, width), e)
                self.put(self.score_gradients, place, zero(self.dtype, blocks.query_lanes))

    def _partly_written(self) -> bool:
        """Whether weights may be read, many at once, past the last key of a block's first tile,
        where no product was written.
        """
        h, blocks = self.h, self.schedule
        short = not isinstance(h.length, int) or h.length < blocks.wide
        return bool(divisor(h.length) % blocks.wide) and (short or blocks.keys > blocks.wide)

    def _row(self, row: Expr) -> Expr:
        if divisor(self.h.rows) % self.schedule.rows:
            last = build.apply(P.MIN, row, build.lift(self.h.rows - 1))
            row = bounded(self.builder, last, self.h.rows - 1)
        return self.builder.let("row", row)

    def _lies(self, batch: Counters, row: Expr, side: MatrixOperand) -> Expr:
        """The offset of a query in an operand."""
        counters = apart(self.builder, row, side.extents)
        return self.builder.let("a", side.moved(side.start(batch), counters))

    def _read(self, side: MatrixOperand, where: Expr, e: Expr, lanes: int) -> Expr:
        (along,) = side.depth
        buffer = self.elements.parameter(side.source.value, Access.READ)
        place = build.add(where, build.mul(build.ramp(e, 1, lanes) if lanes > 1 else e, along))
        return build.cast(build.load(buffer, place), self.dtype)

    def _copied(
        self, batch: Counters, row: Expr, side: MatrixOperand, to: Buffer, i: Expr, lanes: int
    ) -> None:
        width, where = self.h.widths[0], self._lies(batch, row, side)
        with self.builder.loop("e", 0, width, lanes) as e:
            self.put(to, build.add(build.mul(i, width), e), self._read(side, where, e, lanes))

    def _mean(self, batch: Counters, row: Expr, i: Expr) -> None:
        """The cotangents of a query's output, and their dot product with the output, which is the
        mean of the cotangents of its weights.
        """
        builder, sides, wide, lanes = (
            self.builder,
            self.sides,
            self.h.widths[1],
            self.schedule.value_lanes,
        )
        given, result_place = (self._lies(batch, row, side) for side in (sides.ct, sides.y))
        total = builder.variable("l", zero(self.dtype, lanes))
        with builder.loop("e", 0, wide, lanes) as e:
            value = builder.let("g", self._read(sides.ct, given, e, lanes))
            self.put(self.given, build.add(build.mul(i, wide), e), value)
            seen = self._read(sides.y, result_place, e, lanes)
            builder.assign(total, multiply_add(self.target, value, seen, total))
        builder.store(self.means, i, build.fold(P.ADD, total))
        head, time = self.h.head_and_time(batch, row)
        top, sums = self.h.node.inputs[4:6]
        builder.store(self.tops, i, self.elements.at(top, (batch[0], head, time)))
        share = build.apply(
            P.DIV, Const(1.0, self.dtype), self.elements.at(sums, (batch[0], head, time))
        )
        builder.store(self.shares, i, share)

    def _end(self, first: Expr) -> Expr:
        """The end of the block's keys: the last key, or the tile with the last key that its last
        row may attend to.
        """
        h, builder, keys, whole = (
            self.h,
            self.builder,
            self.schedule.keys,
            build.lift(self.h.length),
        )
        within = h.shared == 1 or divisor(h.time) % self.schedule.rows == 0
        if h.gap is None or not h.sees_start or not within:
            return whole
        time = build.mod(first, h.time) if h.shared > 1 else first
        last = build.add(time, self.schedule.rows + h.gap + keys - 1)
        seen = build.mul(build.div(last, keys), keys)
        return bounded(builder, build.apply(P.MIN, seen, whole), h.length, 1)

    def _store(self, batch: Counters, first: Expr, count: Expr, to: MatrixOperand) -> None:
        """Stores the cotangents of the block's queries."""
        builder, lanes, width = self.builder, self.schedule.query_lanes, self.h.widths[0]
        buffer = self.elements.parameter(to.source.value, Access.WRITE)
        with builder.loop("i", 0, count) as i:
            where = self._lies(batch, builder.let("row", build.add(first, i)), to)
            with builder.loop("e", 0, width, lanes) as e:
                value = build.load(self.score_gradients, build.add(build.mul(i, width), e), lanes)
                self.put(buffer, build.add(where, e), value)
