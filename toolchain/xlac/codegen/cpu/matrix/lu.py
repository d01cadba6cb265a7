"""LU factors of a small matrix with partial pivoting, in place."""

from __future__ import annotations

from xlac.codegen.core.accumulators import fixed
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.cpu.matrix.factor import StepColumn, subtract_outer
from xlac.codegen.cpu.matrix.workspace import Workspace
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive
NONE = 2**31 - 1  # a number of a row after all others


def lu(work: Workspace) -> None:
    """Column by column: finds the pivot, exchanges two rows, divides the column and subtracts the
    outer product.
    """
    builder, rows = work.builder, work.rows
    steps = min(rows, work.columns)
    with work.inside():
        pivots, order = work.result(1, steps), work.result(2, rows)
        column = StepColumn(work)
        if order is not None:
            with builder.loop("i", 0, rows) as i:
                builder.store(order[0], build.add(order[1], i), build.cast(i, DType.I32))
        with builder.loop("k", 0, steps) as k:
            column.take(k)
            found = _pivot(column, k)
            if pivots is not None:
                builder.store(pivots[0], build.add(pivots[1], k), found)
            pivot = bounded(builder, build.cast(found, build.INDEX), rows - 1)
            if order is not None:
                here, there = build.add(order[1], k), build.add(order[1], pivot)
                old = builder.let("old", build.load(order[0], here))
                builder.store(order[0], here, build.load(order[0], there))
                builder.store(order[0], there, old)
            with builder.loop("j", 0, work.pitch, work.lanes) as j:
                upper = builder.let("upper", work.load(k, j, work.lanes))
                lower = builder.let("lower", work.load(pivot, j, work.lanes))
                work.store(k, j, lower)
                work.store(pivot, j, upper)
            divisor = builder.let("divisor", column.load(pivot, 1))
            column.store(pivot, column.load(k, 1))
            zero = build.apply(P.EQ, divisor, Const(0.0, work.dtype))
            below = build.add(k, 1)
            column.divide(below, build.select(zero, Const(1.0, work.dtype), divisor))
            subtract_outer(column, k, below, lambda j, k=k: work.load(k, j, work.lanes), False)  # type: ignore[misc]


def _pivot(column: StepColumn, step: Expr) -> Expr:
    """The number, i32, of the first row from `step` on with the largest magnitude; NaN is the
    largest.
    """
    work, builder, lanes = column.work, column.builder, column.lanes
    least, none = Const(-1.0, work.dtype, lanes), Const(NONE, DType.I32, lanes)
    best, found = builder.variable("best", least), builder.variable("found", none)
    for first, mask in column.from_(step):
        size = build.apply(P.ABS, column.load(first, lanes))
        size = size if mask is None else build.select(mask, size, least)
        builder.assign(best, build.apply(P.MAX, best, size))
    most = builder.let("most", build.splat(build.fold(P.MAX, best), lanes))
    for first, mask in column.from_(step):
        size = builder.let("size", build.apply(P.ABS, column.load(first, lanes)))
        largest = build.apply(P.OR, build.apply(P.EQ, size, most), build.apply(P.NE, size, size))
        largest = largest if mask is None else build.apply(P.AND, largest, mask)
        numbers = build.ramp(first, 1, lanes) if lanes > 1 else first
        number = build.select(largest, build.cast(numbers, DType.I32), none)
        builder.assign(found, build.apply(P.MIN, found, number))
    return builder.let("pivot", build.fold(P.MIN, fixed(work.elements, found)))
