"""Exports reductions. Half precision is combined in f32 and rounded once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlac.exporters.stablehlo.literals import ints, pairs
from xlac.exporters.stablehlo.scalars import SAME, compared, converted
from xlac.exporters.stablehlo.views import spread, windowed
from xlac.exporters.stablehlo.writer import SsaValue, StableHloWriter, rule
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.ops import numeric
from xlac_sdk.dtypes import DType


def combination(
    w: StableHloWriter, combine: str, body: Graph | None, scalars: Sequence[Type]
) -> list[Any]:
    """The region that combines scalars: accumulated values, then new ones."""
    hint, w.hint = w.hint, ""

    def fill(*values: SsaValue) -> list[SsaValue]:
        if body is not None:
            return w.inline(body, values)
        old, new = values
        return [new] if combine == "assign" else [w.op(SAME[combine], [old, new], old.type)]

    region = w.region([*scalars, *scalars], fill)
    w.hint = hint
    return region


def operands(
    w: StableHloWriter, node: Node, xs: Sequence[SsaValue]
) -> tuple[list[SsaValue], list[SsaValue], DType]:
    """The operands, initial values, and the type of results where that differs from the node's."""
    op: Any = node.op
    if op.body is not None:
        half = len(xs) // 2
        return [*xs[:half]], [*xs[half:]], xs[0].type.dtype
    (x,) = xs
    dtype = x.type.dtype
    x = converted(w, x, dtype.compute)
    return [x], [w.constant(numeric.identity(op.combine, dtype.compute), dtype.compute)], dtype


def back(
    w: StableHloWriter, node: Node, results: Sequence[SsaValue], dtype: DType
) -> list[SsaValue]:
    """Results of a reduction converted to the node's dtype."""
    op: Any = node.op
    return [*results] if op.body is not None else [converted(w, results[0], dtype)]


@rule("reduce")
def reduce(w: StableHloWriter, node: Node, *xs: SsaValue) -> list[SsaValue]:
    """reduce; a named combination becomes a region."""
    op: Any = node.op
    given, inits, dtype = operands(w, node, xs)
    types = [g.type.with_shape(t.shape) for g, t in zip(given, node.results, strict=True)]
    body = combination(w, op.combine, op.body, [Type(g.type.dtype) for g in given])
    return back(
        w,
        node,
        w.many("reduce", [*given, *inits], types, f"dimensions = {ints(op.axes)}", [body]),
        dtype,
    )


@rule("window")
def window(w: StableHloWriter, node: Node, *xs: SsaValue) -> list[SsaValue]:
    """reduce_window; a named combination becomes a region."""
    op: Any = node.op
    given, inits, dtype = operands(w, node, xs)
    types = [g.type.with_shape(t.shape) for g, t in zip(given, node.results, strict=True)]
    body = combination(w, op.combine, op.body, [Type(g.type.dtype) for g in given])
    text = (
        f"window_dimensions = {ints(op.window)}, window_strides = {ints(op.strides)}, "
        f"base_dilations = {ints(op.base_dilation)}, "
        f"window_dilations = {ints(op.window_dilation)}, padding = {pairs(op.low, op.high)}"
    )
    return back(w, node, w.many("reduce_window", [*given, *inits], types, text, [body]), dtype)


@rule("cumulative")
def cumulative(w: StableHloWriter, node: Node, x: SsaValue) -> SsaValue:
    """By doubling distances."""
    op: Any = node.op
    dtype = x.type.dtype
    kind = dtype.compute
    x = converted(w, x, kind)
    count = x.type.shape[op.axis]
    filler = w.constant(numeric.identity(op.combine, kind), kind)
    if op.exclusive and count != 0:
        x = _moved(w, x, 1, op, filler)
    if not isinstance(count, int):
        return converted(w, _doubled(w, x, op, filler), dtype)
    reach = 1
    while reach < count:
        x = w.op(SAME[op.combine], [x, _moved(w, x, reach, op, filler)], x.type)
        reach *= 2
    return converted(w, x, dtype)


def _moved(w: StableHloWriter, x: SsaValue, by: int, op: Any, filler: SsaValue) -> SsaValue:
    """x shifted along the axis in the direction of the running combination, filled with the
    identity.
    """
    rank = x.type.rank
    low, high = [0] * rank, [0] * rank
    low[op.axis], high[op.axis] = (-by, by) if op.reverse else (by, -by)
    text = (
        f"edge_padding_low = {ints(low)}, edge_padding_high = {ints(high)}, interior_padding = "
        f"{ints([0] * rank)}"
    )
    return w.op("pad", [x, filler], x.type, text)


def _doubled(w: StableHloWriter, x: SsaValue, op: Any, filler: SsaValue) -> SsaValue:
    """The running combination along an axis of open size: distances double in a loop, by
    a product, as jaxlib 0.10 aborts for a counter that is added to itself.
    """
    shape, rank = x.type.shape, x.type.rank
    zero, one, two = map(w.sizes.number, range(3))
    count = w.sizes.value(shape[op.axis])
    state = [one, x]
    types = [s.type for s in state]

    def test(reach: SsaValue, x: SsaValue) -> list[SsaValue]:
        return [compared(w, "lt", reach, count)]

    def run(reach: SsaValue, x: SsaValue) -> list[SsaValue]:
        outside = spread(w, filler, x.type, ())
        twice = [2 * n if a == op.axis else n for a, n in enumerate(shape)]
        parts = [x, outside] if op.reverse else [outside, x]
        both = w.op(
            "concatenate", parts, x.type.with_shape(tuple(twice)), f"dimension = {op.axis} : i64"
        )
        first = reach if op.reverse else w.op("subtract", [count, reach], reach.type)
        starts = [first if a == op.axis else zero for a in range(rank)]
        moved = windowed(w, both, starts, shape)
        return [
            w.op("multiply", [reach, two], reach.type),
            w.op(SAME[op.combine], [x, moved], x.type),
        ]

    regions = [w.region(types, test), w.region(types, run)]
    return w.many("while", state, types, regions=regions)[1]
