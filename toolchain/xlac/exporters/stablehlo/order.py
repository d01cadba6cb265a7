"""Exports sorts, with a comparator that puts NaN last."""

from __future__ import annotations

from xlac.exporters.stablehlo.scalars import compared
from xlac.exporters.stablehlo.views import sliced
from xlac.exporters.stablehlo.writer import SsaValue, StableHloWriter, rule
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops.reduction.order import Sort
from xlac_sdk.dtypes import DType


@rule("sort")
def sort(w: StableHloWriter, node: Node, *xs: SsaValue) -> list[SsaValue]:
    """A stable sort; keys become a comparator that puts NaN last."""
    op = node.op
    assert isinstance(op, Sort)
    scalars = [Type(x.type.dtype) for x in xs for _ in range(2)]
    hint, w.hint = w.hint, ""

    def comparator(*values: SsaValue) -> list[SsaValue]:
        if op.body is not None:
            return w.inline(op.body, values)
        order: SsaValue | None = None
        for key in reversed(range(op.keys)):
            a, b = values[2 * key : 2 * key + 2]
            a, b = (b, a) if op.descending else (a, b)
            before = first(w, a, b)
            if order is not None:  # on equality of this key, later keys decide
                tied = w.op("not", [w.op("or", [before, first(w, b, a)], before.type)], before.type)
                order = w.op("or", [before, w.op("and", [tied, order], before.type)], before.type)
            else:
                order = before
        assert order is not None
        return [order]

    body = w.region(scalars, comparator)
    w.hint = hint
    whole = [x.type for x in node.inputs]
    sorted_values = w.many(
        "sort", xs, whole, f"dimension = {op.axis} : i64, is_stable = true", [body]
    )
    if op.kept is None:
        return sorted_values
    shape = node.results[0].shape
    zeros, ones = [0] * len(shape), [1] * len(shape)
    return [
        sliced(w, x, zeros, shape, ones, t)
        for x, t in zip(sorted_values, node.results, strict=True)
    ]


def first(w: StableHloWriter, a: SsaValue, b: SsaValue) -> SsaValue:
    """Whether a goes before b: it is less, or a number where b is NaN."""
    dtype = a.type.dtype
    if dtype is DType.BOOL:
        return w.op("and", [w.op("not", [a], a.type), b], a.type)
    less = compared(w, "lt", a, b)
    if not dtype.is_float:
        return less
    number = compared(w, "eq", a, a)
    return w.op(
        "or", [less, w.op("and", [number, compared(w, "ne", b, b)], number.type)], number.type
    )
