"""Cumulative operations along a line, each computed by one thread.

Sums of floats are compensated: every running sum is as exact as if it had been computed in twice
the precision.
"""

from __future__ import annotations

from collections.abc import Callable

from xlac.codegen.core.accumulators import fixed
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.core.summation import compensated, two_sum
from xlac.ir.dims import divisor
from xlac.ir.graph import Node
from xlac.ops import numeric
from xlac.ops.reduction.cumulative import Cumulative
from xlac.ops.tensor.leaf import convert_element
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive
RUN = 8  # elements whose running sums start from zero and are added to the compensated total


def line(
    elements: Elements,
    op: Cumulative,
    x: Node,
    before: tuple[Expr, ...],
    inner: Expr,
    mask: Expr | None,
) -> None:
    """The cumulative operation along as many lines as `inner`, the linear index of the axes after,
    has lanes.
    """
    builder, anchor = elements.builder, elements.group.anchor
    shape, dtype = anchor.shape, anchor.type.dtype
    first = Const(numeric.identity(op.combine, dtype), dtype.compute, inner.lanes)
    after: list[Expr] = []
    for extent in reversed(shape[op.axis + 1 :]):
        after.append(build.mod(inner, extent))
        inner = build.div(inner, extent)

    def place(k: Expr) -> tuple[Expr, ...]:
        along = build.sub(build.lift(shape[op.axis] - 1), k) if op.reverse else k
        return (*before, along, *reversed(after))

    def put(at: tuple[Expr, ...], result: Expr) -> None:
        elements.store(
            anchor,
            at,
            convert_element(builder.let("result", result), dtype) if dtype.is_half else result,
        )

    with elements.masked(mask):
        (_sums if compensated(op.combine, dtype) else _running)(elements, op, x, first, place, put)


Place = Callable[[Expr], tuple[Expr, ...]]


Put = Callable[[tuple[Expr, ...], Expr], None]


def _running(
    elements: Elements, op: Cumulative, x: Node, first: Const, place: Place, put: Put
) -> None:
    """Combines one element after another."""
    builder = elements.builder
    total = builder.variable("total", first)
    with builder.loop("k", 0, x.shape[op.axis]) as k:
        at = place(k)
        value = elements.at(x, at)
        new = fixed(elements, build.apply(numeric.COMBINE[op.combine], total, value))
        put(at, fixed(elements, total) if op.exclusive else new)
        builder.assign(total, new)


def _sums(
    elements: Elements, op: Cumulative, x: Node, first: Const, place: Place, put: Put
) -> None:
    """Compensated running sums: those within a block start from zero, and the compensated total
    before the block is added to each.
    """
    builder, count = elements.builder, x.shape[op.axis]
    total, low = builder.variable("total", first), builder.variable("lost", first)
    with builder.loop("block", 0, count, RUN) as block:
        high, lost = fixed(elements, total), fixed(elements, low)
        part = builder.variable("part", first)
        stop = build.add(block, RUN)
        if divisor(count) % RUN:
            stop = bounded(builder, build.apply(P.MIN, stop, build.lift(count)), count)
        with builder.loop("k", block, stop) as k:
            at = place(k)
            value, old = elements.at(x, at), fixed(elements, part)
            new = builder.let("new", build.apply(P.ADD, old, value))
            inner = build.apply(P.ADD, lost, old if op.exclusive else new)
            put(at, build.apply(P.ADD, high, inner))
            builder.assign(part, new)
        new, more = two_sum(builder, high, fixed(elements, part))
        more = builder.let("lost", build.apply(P.ADD, lost, more))
        builder.assign(total, new)
        # the error term of an infinite sum is NaN
        builder.assign(low, build.select(build.apply(P.EQ, more, more), more, first))
