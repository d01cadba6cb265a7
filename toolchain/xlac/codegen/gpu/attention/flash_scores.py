"""Online softmax of a tile of scores, for the rows of which a thread holds a part."""

from __future__ import annotations

from dataclasses import dataclass

from xlac.codegen.core.attention_problem import LOWEST, AttentionProblem, exponential
from xlac.codegen.core.contraction.contraction import multiply_add, zero
from xlac.codegen.core.contraction.matrix_operand import Counters
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.gpu.attention.flash_staging import layouts
from xlac.codegen.gpu.attention.flash_tile import F32, FlashTile
from xlac.codegen.gpu.attention.fragments import BY_CORES, BY_QUADS
from xlac.codegen.gpu.core.instructions import COLUMNS, MMA, Swizzled
from xlac.ir.dims import divisor
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Buffer, Const, Exchange, Expr, Var
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive


class FlashScores:
    """The softmax state of a thread's rows, and its update by a tile of scores."""

    def __init__(
        self,
        elements: Elements,
        after: Epilogue,
        h: AttentionProblem,
        tile: FlashTile,
        target: Target,
    ) -> None:
        self.elements, self.builder, self.after, self.h, self.tile, self.target = (
            elements,
            elements.builder,
            after,
            h,
            tile,
            target,
        )
        self.by_cores = MMA[h.dtype] in target.instructions
        # fragment layouts of queries, and of keys as the score product reads them
        lie = layouts(h, tile, target)
        self.by_query, self.by_key = lie.queries, (lie.keys, lie.values)
        self.of_weights = Swizzled(h.dtype, tile.keys, along_depth=True)
        self.pairs = BY_CORES if self.by_cores else BY_QUADS  # of the weighted values

    def _row(self, number: Expr, half: int) -> FragmentRow:
        """A row, clamped to the last; results of rows past it are not stored."""
        builder, inside = self.builder, None
        if divisor(self.h.rows) % self.tile.rows:
            inside = builder.let("inside", build.apply(P.LT, number, build.lift(self.h.rows)))
            number = build.apply(P.MIN, number, build.lift(self.h.rows - 1))
        greatest = builder.variable("greatest", Const(LOWEST[F32], F32))
        return FragmentRow(
            half,
            bounded(builder, number, self.h.rows - 1),
            inside,
            greatest,
            builder.variable("weight", zero(F32, 1)),
        )

    def _mask(
        self,
        scores: Buffer,
        rows: list[FragmentRow],
        batch: Counters,
        first: Expr,
        k: Expr,
        column: Expr,
    ) -> None:
        """Scales the scores, and masks them in tiles that need it."""
        h, builder, keys = self.h, self.builder, self.tile.keys
        edges = []
        if divisor(h.length) % keys:
            edges.append(build.apply(P.LT, build.lift(h.length), build.add(k, keys)))
        if h.gap is not None:
            # the block's first row is the earliest
            time = build.index(0) if h.shared > 1 else first
            edges.append(build.apply(P.LT, build.add(time, h.gap), build.add(k, keys - 1)))
        if h.mask is not None or not edges:
            self._score(scores, rows, batch, k, column, masked=bool(edges) or h.mask is not None)
            return
        edge = edges[0] if len(edges) == 1 else build.apply(P.OR, *edges)
        edge = builder.let("edge", edge)
        with builder.when(edge):
            self._score(scores, rows, batch, k, column, masked=True)
        with builder.when(build.apply(P.NOT, edge)):
            self._score(scores, rows, batch, k, column, masked=False)

    def _score(
        self,
        scores: Buffer,
        rows: list[FragmentRow],
        batch: Counters,
        k: Expr,
        column: Expr,
        masked: bool,
    ) -> None:
        h, builder = self.h, self.builder
        end = build.lift(h.length) if divisor(h.length) % self.tile.keys else None
        for row in rows:
            for at in range(self.tile.keys // COLUMNS):
                place = at * 4 + row.half * 2
                product = build.load(scores, place, 2)
                if masked:
                    key = build.ramp(build.add(build.add(k, at * COLUMNS), column), 1, 2)
                    score = h.scored(self.elements, batch, row.number, key, product, end)
                else:
                    score = build.apply(P.MUL, product, Const(h.scale, F32))
                builder.store(scores, place, score)

    def _weigh(
        self,
        scores: Buffer,
        sums: Buffer,
        row: FragmentRow,
        shares: Buffer,
        place: Expr,
        column: Expr,
    ) -> None:
        """Writes the weights of a row's keys relative to the maximum score to SHARED memory;
        rescales earlier sums.
        """
        builder = self.builder
        parts = [
            builder.let("score", build.load(scores, at * 4 + row.half * 2, 2))
            for at in range(self.tile.keys // COLUMNS)
        ]
        top = parts[0]
        for part in parts[1:]:
            top = builder.let("top", build.apply(P.MAX, top, part))
        top = self._among_four(P.MAX, build.fold(P.MAX, top))
        top = builder.let("top", build.apply(P.MAX, row.greatest, top))
        less = builder.let("less", exponential(build.apply(P.SUB, row.greatest, top)))
        builder.assign(row.greatest, top)
        total: Expr = zero(F32, 2)
        for at, part in enumerate(parts):
            share = builder.let("share", exponential(build.apply(P.SUB, part, build.splat(top, 2))))
            total = builder.let("total", build.apply(P.ADD, total, share))
            where = self.of_weights.place(place, build.add(column, at * COLUMNS))
            builder.store(
                shares, where, build.cast(share, self.h.dtype), align=2 * self.h.dtype.nbytes
            )
        builder.assign(
            row.weight, multiply_add(self.target, row.weight, less, build.fold(P.ADD, total))
        )
        for pair in range(self.tile.wide // COLUMNS):
            at = self.pairs.place(pair, row.half)
            builder.store(
                sums, at, build.apply(P.MUL, build.load(sums, at, 2), build.splat(less, 2))
            )

    def _among_four(self, primitive: Primitive, value: Expr) -> Expr:
        """Combines values of the four threads that share a row."""
        for distance in (2, 1):
            value = self.builder.let("among", value)
            value = build.apply(primitive, value, Exchange(value, distance))
        return self.builder.let("among", value)


@dataclass(frozen=True, slots=True)
class FragmentRow:
    """One of the two rows of a thread's fragments, with its softmax state."""

    half: int
    number: Expr  # index of the row, clamped to the last
    inside: Expr | None  # whether the row exists; None if it always does
    greatest: Var
    weight: Var
