"""Primitives that users write in a shorter form than the graph holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlac.ir.dims import Dim, Sym, bounds
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError, normal_axis
from xlac.ops.nodes import concat, reshape, select, slice_, transpose
from xlac.ops.reduction import cumulative, order
from xlac.ops.values import Value, as_node, broadcast_to, cast, promoted, spread
from xlac_sdk.dtypes import DType


def _transpose(x: Value, perm: Sequence[int] | None = None) -> Node:
    return transpose(as_node(x), perm)


def _reshape(x: Value, shape: Sequence[Dim] = ()) -> Node:
    return reshape(as_node(x), shape)


def _broadcast(x: Value, shape: Sequence[Dim] = (), axes: Sequence[int] | None = None) -> Node:
    node = as_node(x)
    return broadcast_to(node, shape) if axes is None else spread(node, tuple(shape), axes)


def _concat(*xs: Value, axis: int = 0) -> Node:
    dtype = promoted(xs) if xs else None
    return concat([as_node(x, dtype) for x in xs], axis)


def _slice(
    x: Value,
    starts: Sequence[Dim] | Dim,
    stops: Sequence[Dim | None] | Dim,
    steps: Sequence[int] | int | None = None,
    axes: Sequence[int] | int | None = None,
) -> Node:
    """Bounds of slices as in Python: negative ones count from the end, too large ones are
    clamped.
    """
    node = as_node(x)
    rank = node.type.rank
    many = [
        [v] if isinstance(v, int) or not isinstance(v, Sequence) else list(v)
        for v in (starts, stops)
    ]
    chosen = (
        list(range(len(many[0])))
        if axes is None
        else [axes]
        if isinstance(axes, int)
        else list(axes)
    )
    step = (
        [1] * len(chosen) if steps is None else [steps] if isinstance(steps, int) else list(steps)
    )
    if not len(many[0]) == len(many[1]) == len(step) == len(chosen):
        raise ShapeError("slice needs as many starts as stops, steps and axes", attribute="starts")
    first: list[Dim] = [0] * rank
    last: list[Dim] = list(node.shape)
    by = [1] * rank
    for axis, start, stop, k in zip(chosen, many[0], many[1], step, strict=True):
        spot = normal_axis(axis, rank)
        first[spot], last[spot], by[spot] = python_slice(start, stop, k, node.shape[spot])
    return slice_(node, first, last, by)


def python_slice(start: Dim | None, stop: Dim | None, step: int, size: Dim) -> tuple[Dim, Dim, int]:
    """Bounds of a Python slice of an axis in the primitive's form."""
    if step == 0:
        raise ShapeError("the step of a slice is 0", attribute="steps")
    if isinstance(size, int) and not isinstance(start, Sym) and not isinstance(stop, Sym):
        low, high, step = slice(start, stop, step).indices(size)
        empty = low >= high if step > 0 else low <= high
        return (0, 0, 1) if empty else (low, high, step)
    if start is None:
        start = 0 if step > 0 else size - 1
    elif isinstance(start, int) and start < 0:
        start = size + start
    if stop is None:
        stop = size if step > 0 else -1
    elif isinstance(stop, int) and stop < 0:
        stop = size + stop
    if isinstance(stop, int) and bounds(size)[0] < stop and bounds(size)[1] <= stop:
        stop = size
    return start, stop, step


def _select(condition: Value, x: Value, y: Value) -> Node:
    return select(condition, x, y)


def _cast(x: Value, dtype: DType) -> Node:
    return cast(as_node(x), dtype)


def _cumulative(x: Value, axis: int = 0, **attributes: Any) -> Node:
    node = as_node(x)
    return Node.of(cumulative.Cumulative(normal_axis(axis, node.type.rank), **attributes), node)


def _sort(*xs: Value, axis: int = -1, **attributes: Any) -> Node:
    nodes = [as_node(x) for x in xs]
    if not nodes:
        raise ShapeError("sort needs at least one tensor")
    return Node.of(order.Sort(normal_axis(axis, nodes[0].type.rank), **attributes), *nodes)


FORMS: dict[str, Callable[..., Node]] = {
    "transpose": _transpose, "reshape": _reshape, "broadcast": _broadcast, "concat": _concat,
    "slice": _slice, "select": _select, "cast": _cast, "cumulative": _cumulative, "sort": _sort,
}  # fmt: skip
"""The functions that convert short forms, by mnemonic."""
