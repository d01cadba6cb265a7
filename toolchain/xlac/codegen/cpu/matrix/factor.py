"""Steps that `lu` and `cholesky` share: a column of the matrix, and the outer product that is
subtracted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xlac.codegen.core.contraction.contraction import multiply_add
from xlac.codegen.cpu.matrix.workspace import Workspace
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Number
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive


class StepColumn:
    """The column of a step in consecutive memory, so that vectors run along it."""

    def __init__(self, work: Workspace) -> None:
        self.work, self.builder, self.lanes = work, work.builder, work.lanes
        self.size = work.vectors(work.rows)
        self.buffer, self.first = work.memory("column", work.dtype, self.size)
        if self.size > work.rows:  # the rest of its last vector
            self.store(build.index(self.size - self.lanes), work.zeros())

    def take(self, number: Expr) -> None:
        """Copies the elements of column `number` on and below the diagonal."""
        with self.builder.loop("i", number, self.work.rows) as i:
            self.store(i, self.work.load(i, number, 1))

    def divide(self, start: Number, divisor: Expr) -> None:
        """Divides the elements from `start` on."""
        wide = build.splat(divisor, self.lanes)
        with self.builder.loop("i", self.work.down(start), self.size, self.lanes) as i:
            self.store(i, build.apply(P.DIV, self.load(i, self.lanes), wide))

    def from_(self, start: Expr) -> Iterator[tuple[Expr, Expr | None]]:
        """The vectors that hold the elements from `start` on, each with a mask of these, or None.
        What the caller writes for each is inside a loop or a condition.
        """
        work, lanes = self.work, self.lanes
        first = work.down(start)
        whole = work.rows // lanes * lanes
        mask = build.apply(P.LE, work.lane_of(start), work.lane_numbers()) if lanes > 1 else None
        left = work.lane_of_last(first) if whole < work.rows else None
        if left is not None:
            inside = build.apply(P.LE, work.lane_numbers(), left)
            mask = inside if mask is None else build.apply(P.AND, mask, inside)
        yield first, mask
        with self.builder.loop("i", build.add(first, lanes), whole, lanes) as i:
            yield i, None
        if whole < work.rows and whole:
            with self.builder.when(build.apply(P.LT, first, build.index(whole))):
                last = build.index(whole)
                yield last, build.apply(P.LE, work.lane_numbers(), work.lane_of_last(last))

    def load(self, at: Expr, lanes: int) -> Expr:
        """Consecutive elements."""
        where = build.ramp(build.add(self.first, at), 1, lanes)
        return self.work.elements.load(self.buffer, where)

    def store(self, at: Expr, value: Expr) -> None:
        """Replaces consecutive elements."""
        where = build.ramp(build.add(self.first, at), 1, value.lanes)
        self.work.elements.store_to(self.buffer, where, value)


def subtract_outer(
    column: StepColumn, step: Expr, start: Expr, row: Callable[[Expr], Expr], triangle: bool
) -> None:
    """Writes the divided column of a step into the matrix from row `start` on, and subtracts its
    product with a row, given by vectors, from what is right of it. With `triangle`, vectors of the
    row that are wholly right of the diagonal are left out.
    """
    work, builder, target = column.work, column.builder, column.work.target
    lanes, first = work.lanes, work.down(step)
    place, at = work.lane_numbers(), work.lane_of(step)
    right = builder.let("right", build.apply(P.LT, at, place))
    here = builder.let("here", build.apply(P.EQ, place, at))
    factor = builder.let("u", row(first))
    with builder.loop("i", start, work.rows) as i:
        times = builder.let("f", column.load(i, 1))
        before = builder.let("x", work.load(i, first, lanes))
        negative = build.splat(build.apply(P.NEG, times), lanes)
        rest = multiply_add(target, negative, factor, before)
        kept = build.select(here, build.splat(times, lanes), before)
        work.store(i, first, build.select(right, rest, kept))
    with builder.loop("j", build.add(first, lanes), work.pitch, lanes) as j:
        factor = builder.let("u", row(j))
        with builder.loop("i", j if triangle else start, work.rows) as i:
            times = build.apply(P.NEG, column.load(i, 1))
            before = work.load(i, j, lanes)
            rest = multiply_add(target, build.splat(times, lanes), factor, before)
            work.store(i, j, rest)
