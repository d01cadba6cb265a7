"""The weights of a tile of keys, and the cotangents of its scores, in the gradient of attention."""

from __future__ import annotations

from dataclasses import dataclass

from xlac.codegen.core.attention_problem import AttentionProblem
from xlac.codegen.core.contraction.contraction import zero
from xlac.codegen.core.contraction.matrix_operand import Counters, MatrixOperand
from xlac.codegen.core.contraction.packing import Panels
from xlac.codegen.core.elements import Elements
from xlac.codegen.schedules.attention import AttentionGradientSchedule
from xlac.ir.dims import divisor
from xlac.ops.scalar.exponential import flushed_exp
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Buffer, Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive


@dataclass(frozen=True, slots=True)
class KeySum:
    """A cotangent that every block of queries adds to: the buffer of its sum, and its
    destination.
    """

    place: MatrixOperand
    result: MatrixOperand


@dataclass(frozen=True, slots=True)
class GradientOperands:
    """The further operands of the gradient, and its results; None where a result is not needed."""

    y: MatrixOperand
    ct: MatrixOperand
    keys: Panels
    values: Panels
    by_query: MatrixOperand | None
    by_key: KeySum | None
    by_value: KeySum | None


class GradientWeights:
    """The buffers of a block of queries and its tile of keys.

    For a block's queries there are `queries` and `given` (the cotangents of their outputs), row by
    row, `tops` (maximum scores), `shares` (reciprocals of the sums of exponentials) and `means` (of
    the cotangents of weights), and `score_gradients`, their cotangents. `weights` and `changes`
    (cotangents of scores) are those of the tile.
    """

    queries: Buffer
    given: Buffer
    score_gradients: Buffer
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
        """Stores values contiguously."""
        where = build.ramp(at, 1, value.lanes) if value.lanes > 1 else at
        self.builder.store(buffer, where, build.cast(value, buffer.dtype))

    def weigh(self, batch: Counters, first: Expr, count: Expr, k: Expr, here: Expr) -> None:
        """Computes weights from scores, and cotangents of scores from those of weights; applies
        masks, if there are any.
        """
        h, builder = self.h, self.builder
        if h.mask is None and h.gap is None:
            self._rows(batch, first, count, k, here, masked=False)
            return
        if h.mask is not None:
            self._rows(batch, first, count, k, here, masked=True)
            return
        # the first row of the block is the earliest
        time = build.index(0) if h.shared > 1 else first
        edge = builder.let(
            "edge", build.apply(P.LT, build.add(time, (h.gap or 0) + 1), build.add(k, here))
        )
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
                    score, seen = self._seen(
                        batch, row, build.ramp(build.add(k, j), 1, wide), product
                    )
                else:
                    score = build.apply(P.MUL, product, Const(scale, dtype, wide))
                power = flushed_exp(build.apply(P.SUB, score, top))
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
