"""Products of 16 rows held by a warp in registers: by tensor cores, or by ordinary arithmetic of
each thread.

A thread has results of row `lane / 4` and of the row 8 below it, in pairs of adjacent columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlac.codegen.core.contraction.contraction import multiply_add
from xlac.codegen.gpu.core import instructions
from xlac.codegen.gpu.core.instructions import BYTES, CHUNK, COLUMNS, FragmentOperand
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Buffer, Expr, LoopKind, Shuffle
from xlac_sdk.target import Target


@dataclass(frozen=True, slots=True)
class Pairs:
    """The columns of a thread's pairs: of every `span` columns it has an adjacent quarter."""

    span: int

    @property
    def each(self) -> int:
        """The number of adjacent columns of a thread."""
        return self.span // 4

    def first(self, lane: Expr) -> Expr:
        """The first column that a thread holds."""
        return build.mul(build.mod(lane, 4), self.each)

    def offset(self, pair: int) -> int:
        """The column of a pair, relative to the thread's first."""
        return 2 * pair // self.each * self.span + 2 * pair % self.each

    def end(self, pair: int) -> int:
        """An upper bound (exclusive) of the columns of all threads' pairs with this number."""
        return (2 * pair // self.each + 1) * self.span

    def place(self, pair: int, half: int) -> int:
        """The index of a thread's register for a pair of its first or second row."""
        return 2 * pair // self.each * 2 * self.each + half * self.each + 2 * pair % self.each


BY_CORES, BY_QUADS = Pairs(COLUMNS), Pairs(2 * COLUMNS)


def by_cores(
    builder: Builder,
    sums: Buffer,
    left: FragmentOperand,
    right: FragmentOperand,
    depth: int,
    lane: Expr,
    columns: int,
) -> None:
    """Adds the products over `depth` steps by tensor cores; pairs are `BY_CORES`."""
    for step in range(0, depth, BYTES // left.layout.dtype.nbytes):
        builder.emit(
            instructions.multiply(
                sums, left, right, build.index(step), lane, (1, columns // COLUMNS)
            )
        )


def along_depth(
    builder: Builder,
    target: Target,
    sums: Buffer,
    left: FragmentOperand,
    right: FragmentOperand,
    depth: int,
    lane: Expr,
    columns: int,
) -> None:
    """The same by ordinary arithmetic, for operands that are both contiguous along the sum; pairs
    are `BY_CORES`.
    """
    rows = _rows(builder, left, lane)
    with builder.loop("step", 0, depth, _lanes(left)) as step:
        given = [_chunk(builder, left, row, step) for row in rows]
        with builder.loop("j", 0, columns // COLUMNS, kind=LoopKind.UNROLLED) as j:
            column = build.add(right.first, build.add(build.mul(j, COLUMNS), BY_CORES.first(lane)))
            others = [_chunk(builder, right, build.add(column, e), step) for e in range(2)]
            for half, value in enumerate(given):
                for e, other in enumerate(others):
                    at = build.add(build.mul(j, 4), half * 2 + e)
                    total: Expr = build.load(sums, at)
                    for lane_of in range(value.lanes):
                        total = multiply_add(
                            target,
                            Shuffle((value,), (lane_of,)),
                            Shuffle((other,), (lane_of,)),
                            total,
                        )
                    builder.store(sums, at, total)


def across(
    builder: Builder,
    target: Target,
    sums: Buffer,
    left: FragmentOperand,
    right: FragmentOperand,
    depth: int,
    lane: Expr,
    columns: int,
) -> None:
    """The same for a right operand that is contiguous along columns; pairs are `BY_QUADS`."""
    rows = _rows(builder, left, lane)
    with builder.loop("step", 0, depth, _lanes(left)) as step:
        given = [_chunk(builder, left, row, step) for row in rows]
        for later in range(_lanes(left)):
            with builder.loop("j", 0, columns // BY_QUADS.span, kind=LoopKind.UNROLLED) as j:
                column = build.add(
                    right.first, build.add(build.mul(j, BY_QUADS.span), BY_QUADS.first(lane))
                )
                where = build.add(right.layout.place(column, build.add(step, later)), right.start)
                other = builder.let(
                    "other", build.load(right.buffer, where, BY_QUADS.each, align=CHUNK)
                )
                for half, value in enumerate(given):
                    at = build.add(build.mul(j, 2 * BY_QUADS.each), half * BY_QUADS.each)
                    factor = build.splat(Shuffle((value,), (later,)), BY_QUADS.each)
                    builder.store(
                        sums,
                        at,
                        multiply_add(target, factor, other, build.load(sums, at, BY_QUADS.each)),
                    )


def _rows(builder: Builder, left: FragmentOperand, lane: Expr) -> list[Expr]:
    return [
        builder.let("row", build.add(left.first, build.add(build.div(lane, 4), half * 8)))
        for half in range(2)
    ]


def _lanes(operand: FragmentOperand) -> int:
    return CHUNK // operand.layout.dtype.nbytes


def _chunk(builder: Builder, operand: FragmentOperand, place: Expr, step: Expr) -> Expr:
    where = build.add(operand.layout.place(place, step), operand.start)
    return builder.let("chunk", build.load(operand.buffer, where, _lanes(operand), align=CHUNK))
