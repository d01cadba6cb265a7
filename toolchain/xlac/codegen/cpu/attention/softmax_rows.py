"""The per-query state of a block in online softmax: queries, maximum scores, sums of weights, and
weighted values.
"""

from __future__ import annotations

from xlac.codegen.core.attention_problem import LOWEST, AttentionProblem
from xlac.codegen.core.contraction.contraction import zero
from xlac.codegen.core.contraction.matrix_operand import Counters, apart
from xlac.codegen.core.contraction.packing import Panels
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.schedules.attention import OnlineSoftmaxSchedule
from xlac.fusion.group import Group, picked
from xlac.ir.dims import divisor
from xlac.ir.op import Index
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive


class SumsStore:
    """Where to store the results of `attention_sums`."""

    def __init__(self, group: Group) -> None:
        self.wanted = picked(group)

    def store(self, elements: Elements, at: Index, value: Expr) -> None:
        """Stores the outputs."""
        self._put(0, elements, at, value)

    def keep(self, elements: Elements, at: Index, top: Expr, total: Expr) -> None:
        """Stores the maximum score and the sum of the exponentials."""
        self._put(1, elements, at, top)
        self._put(2, elements, at, total)

    def _put(self, number: int, elements: Elements, at: Index, value: Expr) -> None:
        for node, which in self.wanted:
            if which == number:
                elements.store(node, at, value)


class SoftmaxRows:
    """The buffers of a block's rows: their initialization, and the final results."""

    def __init__(
        self,
        elements: Elements,
        after: Epilogue | SumsStore,
        h: AttentionProblem,
        schedule: OnlineSoftmaxSchedule,
        panels: Panels,
        target: Target,
    ) -> None:
        self.elements, self.builder, self.after, self.h, self.schedule = (
            elements,
            elements.builder,
            after,
            h,
            schedule,
        )
        self.panels, self.target, self.dtype = panels, target, h.dtype.compute
        self.height = schedule.tile.rows[1]
        self.slots = 1 << (self.height - 1).bit_length()  # of a tile's rows, as one vector
        self.ragged = divisor(h.length) % schedule.wide != 0

    def _begin(self, batch: Counters, first: Expr, tall: Expr) -> None:
        """Copies the block's queries and clears the sums. Rows past the last repeat it."""
        h, builder, (width, wide), lanes = (
            self.h,
            self.builder,
            self.h.widths,
            self.schedule.tile.lanes,
        )
        self.queries = builder.local("q", self.dtype, self.schedule.rows * h.widths[0])
        self.values = builder.local("o", self.dtype, self.schedule.rows * h.widths[1])
        self.sums = builder.local("l", self.dtype, self.schedule.rows * lanes)
        self.greatest = builder.local("m", self.dtype, self.schedule.tiles * self.slots)
        self.scores = builder.local("s", self.dtype, self.height * self.schedule.keys)
        self.tops = builder.local("n", self.dtype, self.slots)
        self.less = builder.local("c", self.dtype, self.slots)
        side = h.queries
        buffer = self.elements.parameter(side.source.value, Access.READ)
        start, part = builder.let("a", side.start(batch)), min(lanes, width & -width)
        with builder.loop("i", 0, build.mul(tall, self.height)) as i:
            where = builder.let(
                "a", side.moved(start, apart(builder, self._row(build.add(first, i)), side.extents))
            )
            (along,) = side.depth
            with builder.loop("e", 0, width, part) as e:
                place = build.add(
                    where, build.mul(build.ramp(e, 1, part) if part > 1 else e, along)
                )
                self._put(
                    self.queries,
                    build.add(build.mul(i, width), e),
                    build.cast(build.load(buffer, place), self.dtype),
                )
            self._fill(self.values, build.mul(i, wide), wide, self.schedule.value_lanes)
            self._fill(self.sums, build.mul(i, lanes), lanes, lanes)
        with builder.loop("i", 0, build.mul(tall, self.slots), self.slots) as i:
            self._put(self.greatest, i, Const(LOWEST[self.dtype], self.dtype, self.slots))
        self._put(self.tops, build.index(0), Const(LOWEST[self.dtype], self.dtype, self.slots))
        if self.ragged or h.gap is not None:
            self._fill(self.scores, build.index(0), self.height * self.schedule.keys, lanes)

    def _row(self, row: Expr) -> Expr:
        """A row, clamped to the last; those past it are not stored."""
        if divisor(self.h.rows) % self.schedule.rows:
            row = bounded(
                self.builder, build.apply(P.MIN, row, build.lift(self.h.rows - 1)), self.h.rows - 1
            )
        return self.builder.let("row", row)

    def _put(self, buffer: Buffer, at: Expr, value: Expr) -> None:
        self.builder.store(buffer, build.ramp(at, 1, value.lanes) if value.lanes > 1 else at, value)

    def _fill(self, buffer: Buffer, at: Expr, size: int, lanes: int) -> None:
        with self.builder.loop("z", 0, size, lanes) as z:
            self._put(buffer, build.add(at, z), zero(self.dtype, lanes))

    def _store(self, batch: Counters, first: Expr, count: Expr) -> None:
        """Weighted values divided by the sum of weights, and the epilogue."""
        builder, wide, lanes = self.builder, self.h.widths[1], self.schedule.value_lanes
        with builder.loop("i", 0, count) as i:
            row = builder.let("row", build.add(first, i))
            weight = build.load(
                self.sums, build.mul(i, self.schedule.tile.lanes), self.schedule.tile.lanes
            )
            weight = builder.let("l", build.fold(P.ADD, weight))
            if isinstance(self.after, SumsStore):
                place = build.add(
                    build.mul(build.div(i, self.height), self.slots), build.mod(i, self.height)
                )
                head, time = self.h.head_and_time(batch, row)
                top = build.load(self.greatest, place)
                self.after.keep(self.elements, (batch[0], head, time), top, weight)
            with builder.loop("e", 0, wide, lanes) as e:
                value = build.load(self.values, build.add(build.mul(i, wide), e), lanes)
                result = build.apply(P.DIV, value, build.splat(weight, lanes))
                self.after.store(
                    self.elements, self.h.place(batch, row, build.ramp(e, 1, lanes)), result
                )
