"""The lower triangular factor of a small positive definite matrix, in place."""

from __future__ import annotations

from xlac.codegen.cpu.matrix.factor import StepColumn, subtract_outer
from xlac.codegen.cpu.matrix.workspace import Workspace
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive


def cholesky(work: Workspace) -> None:
    """Column by column: divides the column by the root of its first element, and subtracts its
    product with itself from the lower triangle.
    """
    builder, lanes = work.builder, work.lanes
    with work.inside():
        column = StepColumn(work)
        with builder.loop("k", 0, work.rows) as k:
            column.take(k)
            pivot = builder.let("pivot", build.apply(P.SQRT, column.load(k, 1)))
            column.divide(k, pivot)
            subtract_outer(column, k, k, lambda j: column.load(j, lanes), True)
        with builder.loop("i", 0, work.rows) as i:
            first = work.down(i)
            lower = build.apply(P.LE, work.lane_numbers(), work.lane_of(i))
            kept = build.select(lower, work.load(i, first, lanes), work.zeros())
            work.store(i, first, kept)
            with builder.loop("j", build.add(first, lanes), work.pitch, lanes) as j:
                work.store(i, j, work.zeros())
