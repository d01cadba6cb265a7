"""Online softmax of attention, for a block of queries against tiles of keys.

While its keys are processed, each query keeps the maximum score, the sum of the weights relative to
it (a vector, reduced at the end), and the weighted values. When the maximum grows, the sums are
rescaled. Keys that causal masking hides from a whole block are not read, so infinities among their
values have no effect.
"""

from __future__ import annotations

import math
from functools import partial, reduce
from itertools import chain

from xlac.codegen.core.attention_problem import LOWEST
from xlac.codegen.core.contraction.contraction import multiply, multiply_add, unravel, zero
from xlac.codegen.core.contraction.matrix_operand import Counters
from xlac.codegen.core.contraction.packing import each_panel, panels_before
from xlac.codegen.core.contraction.tiling import even_split
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.cpu.attention.softmax_rows import SoftmaxRows
from xlac.ir.dims import ceil_div, divisor, volume
from xlac.ops.scalar.exponential import flushed_exp
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Const, Expr, LoopKind, Shuffle
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive


class OnlineSoftmax(SoftmaxRows):
    """Writes the kernel's body with the builder of `elements`; `panels` has the keys."""

    def write(self) -> None:
        """Loops over blocks of queries of one head; those that attend to the most keys
        come first.
        """
        h, builder = self.h, self.builder
        count, threads = ceil_div(h.rows, self.schedule.rows), self.schedule.threads
        extents = [*h.batch, count]
        kind = LoopKind.PARALLEL if threads.loops else LoopKind.SERIAL
        with builder.loop("t", 0, volume(tuple(extents)), kind=kind, grain=threads.grain) as t:
            *batch, block = unravel(builder, t, extents)
            if h.gap is not None:
                block = build.sub(count - 1, block)
            first = builder.let(
                "first", build.mul(bounded(builder, block, count - 1), self.schedule.rows)
            )
            self._block(batch, first)

    def _block(self, batch: Counters, first: Expr) -> None:
        h, blocks, builder = self.h, self.schedule, self.builder
        rows, tall, count = blocks.rows, build.lift(blocks.tiles), build.lift(blocks.rows)
        if divisor(h.rows) % rows:
            count = bounded(builder, build.apply(P.MIN, count, build.sub(h.rows, first)), rows, 1)
            tall = bounded(
                builder, build.div(build.add(count, self.height - 1), self.height), blocks.tiles, 1
            )
        self._begin(batch, first, tall)
        end = self._end(first)
        with builder.loop("k", 0, end, blocks.keys) as k:
            here = build.lift(blocks.keys)
            if not isinstance(end, Const) or int(end.value) % blocks.keys:
                here = bounded(builder, build.apply(P.MIN, here, build.sub(end, k)), blocks.keys, 1)
            with builder.loop("r", 0, tall) as r:
                self._tile(batch, first, k, here, r)
        self._store(batch, first, count)

    def _end(self, first: Expr) -> Expr:
        """The end of the block's keys: the last key, or the last that its last row may
        attend to.
        """
        h, builder, whole = self.h, self.builder, build.lift(self.h.length)
        # all rows of the block are of one head
        within = h.shared == 1 or divisor(h.time) % self.schedule.rows == 0
        if h.gap is None or not h.sees_start or not within:
            return whole
        time = build.mod(first, h.time) if h.shared > 1 else first
        return bounded(
            builder,
            build.apply(P.MIN, build.add(time, self.schedule.rows + h.gap), whole),
            h.length,
            1,
        )

    # ---- a tile of queries against a tile of keys --------------------------------------------

    def _tile(self, batch: Counters, first: Expr, k: Expr, here: Expr, r: Expr) -> None:
        start = self.builder.let("r", build.mul(r, self.height))
        self._multiply_keys(batch, k, here, start)
        self._mask(batch, build.add(first, start), k, here)
        self._weigh(build.mul(r, self.slots), start, here)
        self._add_values(batch, k, here, start)

    def _multiply_keys(self, batch: Counters, k: Expr, here: Expr, start: Expr) -> None:
        """Products of the tile's queries with each panel of keys."""
        h, builder, tile, width = self.h, self.builder, self.schedule.tile, self.h.widths[0]
        buffer = self.elements.parameter(self.panels.source.value, Access.READ)

        def panel(column: Expr, vectors: int, partial: build.Number) -> None:
            (stride,) = self.panels.strides(vectors * tile.lanes)
            base = builder.let("b", self.panels.base(list(batch), column, width))
            sums = [
                [builder.variable("c", zero(self.dtype, tile.lanes)) for _ in range(vectors)]
                for _ in range(self.height)
            ]

            def right(e: Expr, v: int) -> Expr:
                return build.load(
                    buffer,
                    build.add(build.add(base, build.mul(e, stride)), v * tile.lanes),
                    tile.lanes,
                )

            def left(e: Expr, i: int) -> Expr:
                return build.load(self.queries, build.add(build.mul(build.add(start, i), width), e))

            multiply(builder, self.target, sums, build.index(width), left, right)
            place = build.sub(column, k)
            for i, totals in enumerate(sums):
                for v, total in enumerate(totals):
                    self._put(
                        self.scores,
                        build.add(place, i * self.schedule.keys + v * tile.lanes),
                        total,
                    )

        with builder.loop(
            "p", build.div(k, tile.width), panels_before(build.add(k, here), h.length, tile)
        ) as p:
            each_panel(builder, h.length, tile, p, panel)

    def _mask(self, batch: Counters, first: Expr, k: Expr, here: Expr) -> None:
        """Scales the scores and updates each row's maximum; masks scores, if there is any mask."""
        h, builder = self.h, self.builder
        stop = build.add(
            k,
            build.mul(
                build.div(build.add(here, self.schedule.wide - 1), self.schedule.wide),
                self.schedule.wide,
            ),
        )
        edges = []
        if self.ragged:
            edges.append(build.apply(P.LT, build.lift(h.length), stop))
        if h.gap is not None:
            time = build.index(0) if h.shared > 1 else first  # the tile's first row is the earliest
            edges.append(build.apply(P.LT, build.add(time, h.gap + 1), stop))
        if h.mask is not None or not edges:
            self._scale(batch, first, k, here, masked=h.mask is not None)
            return
        edge = builder.let("edge", reduce(partial(build.apply, P.OR), edges))
        for masked, condition in ((True, edge), (False, build.apply(P.NOT, edge))):
            with builder.when(condition):
                self._scale(batch, first, k, here, masked)

    def _scale(self, batch: Counters, first: Expr, k: Expr, here: Expr, masked: bool) -> None:
        builder, wide, dtype = self.builder, self.schedule.wide, self.dtype
        with builder.loop("i", 0, self.height) as i:
            row = self._row(build.add(first, i)) if masked else first
            top = builder.variable("top", Const(LOWEST[dtype], dtype, wide))
            with builder.loop("j", 0, here, wide) as j:
                place = build.add(build.mul(i, self.schedule.keys), j)
                product = builder.let("s", build.load(self.scores, place, wide))
                if masked:
                    score = self._seen(batch, row, build.ramp(build.add(k, j), 1, wide), product)
                else:
                    score = build.apply(P.MUL, product, Const(self.h.scale, dtype, wide))
                score = builder.let("s", score)
                self._put(self.scores, place, score)
                builder.assign(top, build.apply(P.MAX, top, score))
            builder.store(self.tops, i, build.fold(P.MAX, top))

    def _seen(self, batch: Counters, row: Expr, key: Expr, product: Expr) -> Expr:
        """Scaled and masked scores; the mask is not read past the last key."""
        end = build.lift(self.h.length) if self.ragged else None
        if end is None:
            return self.h.scored(self.elements, batch, row, key, product, end)
        there = self.builder.let("there", build.apply(P.LT, key, end))
        with self.elements.guarded(there):
            score = self.h.scored(self.elements, batch, row, key, product, None)
        return build.select(there, score, Const(-math.inf, self.dtype))

    def _weigh(self, slot: Expr, start: Expr, here: Expr) -> None:
        """Computes weights relative to the new maximum, and rescales the sum of weights."""
        builder, wide, lanes, dtype = (
            self.builder,
            self.schedule.wide,
            self.schedule.tile.lanes,
            self.dtype,
        )
        before = builder.let("m", build.load(self.greatest, slot, self.slots))
        now = builder.let("m", build.apply(P.MAX, before, build.load(self.tops, 0, self.slots)))
        self._put(self.greatest, slot, now)
        self._put(self.less, build.index(0), build.apply(P.EXP, build.apply(P.SUB, before, now)))
        with builder.loop("i", 0, self.height) as i:
            top = builder.let("m", build.splat(build.load(self.greatest, build.add(slot, i)), wide))
            total = builder.variable("l", zero(dtype, wide))
            with builder.loop("j", 0, here, wide) as j:
                place = build.add(build.mul(i, self.schedule.keys), j)
                share = builder.let(
                    "p", flushed_exp(build.apply(P.SUB, build.load(self.scores, place, wide), top))
                )
                self._put(self.scores, place, share)
                builder.assign(total, build.apply(P.ADD, total, share))
            parts: list[Expr] = [
                Shuffle((total,), tuple(range(at, at + lanes))) for at in range(0, wide, lanes)
            ]
            whole = reduce(partial(build.apply, P.ADD), parts)
            kept = build.mul(build.add(start, i), lanes)
            less = build.splat(build.load(self.less, i), lanes)
            self._put(
                self.sums,
                kept,
                multiply_add(self.target, build.load(self.sums, kept, lanes), less, whole),
            )

    def _add_values(self, batch: Counters, k: Expr, here: Expr, start: Expr) -> None:
        """Adds the weighted values of the tile's keys, and rescales the earlier sums."""
        builder, side, wide, lanes = (
            self.builder,
            self.h.values,
            self.h.widths[1],
            self.schedule.value_lanes,
        )
        (step,) = side.depth
        base = builder.let("b", build.add(side.start(batch), build.mul(k, step)))
        buffer = self.elements.parameter(side.source.value, Access.READ)

        def add(column: Expr, vectors: int) -> None:
            from_here = builder.let("b", build.add(base, column))
            rows = [
                build.add(build.mul(build.add(start, i), wide), column) for i in range(self.height)
            ]
            places = [[build.add(row, v * lanes) for v in range(vectors)] for row in rows]
            sums = []
            for i, row in enumerate(places):
                less = builder.let("c", build.splat(build.load(self.less, i), lanes))
                sums.append(
                    [
                        builder.variable(
                            "o", build.apply(P.MUL, build.load(self.values, place, lanes), less)
                        )
                        for place in row
                    ]
                )

            def right(e: Expr, v: int) -> Expr:
                where = build.add(build.add(from_here, build.mul(e, step)), v * lanes)
                return build.cast(build.load(buffer, where, lanes), self.dtype)

            def left(e: Expr, i: int) -> Expr:
                return build.load(self.scores, build.add(e, i * self.schedule.keys))

            multiply(builder, self.target, sums, here, left, right)
            for place, total in zip(chain(*places), chain(*sums), strict=True):
                self._put(self.values, place, total)

        split = even_split(wide // lanes, self.schedule.tile.vectors)
        with builder.loop("v", 0, split.full * split.step * lanes, split.step * lanes) as column:
            add(column, split.step)
        if split.rest:
            add(build.index(split.full * split.step * lanes), split.rest)
