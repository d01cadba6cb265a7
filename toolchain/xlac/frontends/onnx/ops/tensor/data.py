"""Results with data-dependent sizes: NonZero, Compress, Unique (ONNX operator sets 9 to 26)."""

from __future__ import annotations

import numpy as np

from xlac.frontends.limits import KEYS, check_parts
from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.graph.values import Ragged, Value
from xlac.frontends.onnx.registry import operator
from xlac.ir.dims import Dim, volume
from xlac.ir.graph import Node
from xlac.ir.op import normal_axis
from xlac.ops import build
from xlac.ops.tensor.dynamic import Compact
from xlac_sdk.dtypes import DType


def compacted(mask: Node, bound: Dim) -> tuple[Node, Node]:
    """The indices of the true elements of a mask in row-major order, and their number."""
    positions, count = build.results(Node.of(Compact(bound), mask))
    return positions, count


@operator("NonZero", since=9)
def non_zero(call: OperatorCall) -> Value:
    """The coordinates of nonzero elements: one row for each axis."""
    x = call[0]
    if x.type.rank == 0:
        x = build.reshape(x, [1])
    mask = x if x.type.dtype is DType.BOOL else build.compare(x, "ne", 0)
    flat, count = compacted(mask, volume(x.shape))
    rows = []
    for axis in reversed(range(x.type.rank)):
        size = build.cast(build.apply1("dim_size", x, axis=axis), DType.I64)
        rows.append(build.apply1("rem", flat, build.maximum(size, 1)))
        flat = build.div(flat, build.maximum(size, 1))
    return Ragged(build.apply1("stack", *reversed(rows), axis=0), ((1, count),))


@operator("Compress", since=9)
def compress(call: OperatorCall) -> Value:
    """The slices along an axis (or elements of the flattened tensor) whose condition is true."""
    x, condition = call[0], call[1]
    axis = call.attr("axis", None)
    if axis is None:
        x, axis = build.reshape(x, [-1]), 0
    axis = normal_axis(axis, x.type.rank)
    size, length = x.shape[axis], condition.shape[0]
    if isinstance(size, int) and isinstance(length, int) and length > size:
        condition = build.cut(condition, 0, 0, size)
    known = call.importer.known.constant(condition)
    if known is not None:
        return build.take(x, build.constant(np.flatnonzero(known)), axis)
    positions, count = compacted(condition, condition.shape[0])
    return Ragged(build.take(x, positions, axis), ((axis, count),))


@operator("Unique", since=11)
def unique(call: OperatorCall) -> tuple[Value, ...]:
    """The unique slices along an axis (or elements of the flattened tensor), the index of each
    one's first occurrence, the inverse indices, and counts.
    """
    x = call[0]
    axis = call.attr("axis", None)
    if axis is None:
        x, axis = build.reshape(x, [-1]), 0
    axis = normal_axis(axis, x.type.rank)
    rows = build.reshape(
        build.transpose(x, [axis, *(a for a in range(x.type.rank) if a != axis)]),
        [x.shape[axis], -1],
    )
    leader, rank, count = _groups(rows, bool(call.attr("sorted", 1)))
    first, counts = _firsts(leader, rank, x.shape[axis])
    extents = ((0, count),)
    values = build.take(x, first, axis)
    return Ragged(values, ((axis, count),)), Ragged(first, extents), rank, Ragged(counts, extents)


def _groups(rows: Node, ordered: bool) -> tuple[Node, Node, Node]:
    """For each row: whether it is the first of its group of equal rows, and the number of its
    group; and how many groups there are.

    Groups are numbered in sorted order, or in order of appearance. Rows of width w are sorted by w
    keys at once.
    """
    n, width = rows.shape
    assert isinstance(width, int)
    at = build.iota((n,), 0)
    check_parts(width, KEYS)
    keys = [build.reshape(build.cut(rows, 1, c, c + 1), [n]) for c in range(width)]
    *sorted_keys, order = build.sort([*keys, at], 0, keys=max(1, width)) if keys else (at,)
    fresh = build.full(False, (n,), DType.BOOL)
    for key in sorted_keys:
        before = (
            build.concat([build.cut(key, 0, 0, 1), build.cut(key, 0, 0, n - 1)]) if n != 0 else key
        )
        fresh = build.apply1("or", fresh, build.compare(key, "ne", before))
    fresh = build.apply1("or", fresh, build.compare(at, "eq", 0))
    kind = build.sub(build.apply1("cumsum", build.cast(fresh, DType.I64), axis=0), 1)
    number = build.apply1("scatter_elements", build.full(0, (n,), DType.I64), order, kind, axis=0)
    leader = build.apply1(
        "scatter_elements", build.full(False, (n,), DType.BOOL), order, fresh, axis=0
    )
    count = build.reduce(build.cast(fresh, DType.I64), "add")
    if ordered:
        return leader, number, count
    arrival = build.sub(build.apply1("cumsum", build.cast(leader, DType.I64), axis=0), 1)
    renumbered = build.apply1(
        "scatter_elements",
        build.full(0, (n,), DType.I64),
        number,
        build.select(leader, arrival, 0),
        axis=0,
        combine="max",
    )
    return leader, build.take(renumbered, number, 0), count


def _firsts(leader: Node, number: Node, n: Dim) -> tuple[Node, Node]:
    """For each group: the index of its first row, and its number of rows."""
    at = build.iota((n,), 0)
    outside = build.select(leader, number, n if isinstance(n, int) else 1 << 40)
    first = build.apply1("scatter_elements", build.full(0, (n,), DType.I64), outside, at, axis=0)
    counts = build.apply1(
        "scatter_elements",
        build.full(0, (n,), DType.I64),
        number,
        build.full(1, (n,), DType.I64),
        axis=0,
        combine="add",
    )
    return first, counts
