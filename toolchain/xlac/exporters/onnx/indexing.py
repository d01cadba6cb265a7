"""Exports gathers and scatters by positions in the flattened tensor."""

from __future__ import annotations

import numpy as np

from xlac.exporters.onnx.views import padded
from xlac.exporters.onnx.writer import OnnxWriter, known, rule
from xlac.exporters.unsaid import Unsaid
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops.tensor.gather import Gather
from xlac.ops.tensor.scatter import Scatter
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]
STORED = {
    DType.I8: DType.I32, DType.I16: DType.I32, DType.U8: DType.I32, DType.U16: DType.I32,
    DType.U32: DType.I64, DType.U64: DType.I64, DType.BF16: DType.F32, DType.F16: DType.F32,
    DType.BOOL: DType.I32,
}  # fmt: skip
"""Types in which updates are combined, by element type: runtimes support few types. u64 wraps as
i64 does.
"""


def whole(w: OnnxWriter, x: str, dtype: DType) -> str:
    """Indices as i64; a u64 beyond its range becomes the largest i64."""
    if dtype is not DType.U64:
        return w.cast(x, DType.I64) if dtype is not DType.I64 else x
    signed = w.cast(x, DType.I64)
    return w.op(
        "Where", w.op("Less", signed, w.constant(0)), w.constant(np.iinfo(np.int64).max), signed
    )


def vectors(w: OnnxWriter, indices: str, node: Node, vector: int, axes: Ints) -> tuple[str, Ints]:
    """Index vectors along the last axis of a matrix, and the shape of the list of them."""
    shape = known(node.shape, "indices")
    indices = whole(w, indices, node.type.dtype)
    if vector == len(shape):
        return w.reshape(indices, (-1, 1)) if shape else w.reshape(indices, (1, 1)), shape
    batch = shape[:vector] + shape[vector + 1 :]
    order = [*(a for a in range(len(shape)) if a != vector), vector]
    return w.reshape(w.transpose(indices, order), (int(np.prod(batch)), len(axes))), batch


def strides(shape: Ints) -> Ints:
    """Row-major strides in elements."""
    return tuple(int(np.prod(shape[a + 1 :], dtype=np.int64)) for a in range(len(shape)))


def batching(shape: Ints, batch: Ints, own: Ints, others: Ints, vector: int) -> Array:
    """The offset of each index vector due to batching axes."""
    at = np.indices(batch).reshape(len(batch), int(np.prod(batch)))
    total = np.zeros(int(np.prod(batch)), np.int64)
    for axis, other in zip(own, others, strict=True):
        total += at[other - (other > vector)] * strides(shape)[axis]
    return total


def first_element(w: OnnxWriter, places: str, shape: Ints, axes: Ints, starts: Array) -> str:
    """The position in the flattened tensor of the first element that each index vector names:
    `places` along `axes`, after the offsets `starts` of the batching axes.
    """
    steps = w.constant(np.array([strides(shape)[a] for a in axes], np.int64))
    position = w.op("ReduceSum", w.op("Mul", places, steps), w.constant([1]), keepdims=0)
    return w.op("Add", position, w.constant(starts))


def window(shape: Ints, sizes: Ints, kept: Ints) -> Array:
    """The offset of each element of a slice from its first, along the axes that are kept."""
    offsets = np.zeros(tuple(sizes[a] for a in kept), np.int64)
    for place, axis in enumerate(kept):
        along = np.arange(sizes[axis]) * strides(shape)[axis]
        offsets = offsets + along.reshape([-1 if i == place else 1 for i in range(len(kept))])
    return offsets


@rule("gather")
def gather(w: OnnxWriter, node: Node, x: str, indices: str) -> str:
    """Gather along one axis, GatherND of points, otherwise elements by their positions in the
    flattened tensor.
    """
    op = node.op
    assert isinstance(op, Gather)
    if (axis := rows(node)) is not None:
        limit = known((node.inputs[0].shape[axis],), "gather along an axis")[0]
        at = whole(w, indices, node.inputs[1].type.dtype)
        if op.index_vector_dim < node.inputs[1].type.rank:
            at = w.reshape(at, node.inputs[1].shape[: op.index_vector_dim])
        at = w.least(w.most(at, w.constant(0)), w.constant(limit - 1))
        return w.op("Gather", x, at, axis=axis)
    if points(node):
        ends = w.op("Sub", w.shape(node.inputs[0].shape[: len(op.start_index_map)]), w.constant(1))
        at = whole(w, indices, node.inputs[1].type.dtype)
        return w.op("GatherND", x, w.least(w.most(at, w.constant(0)), ends))
    shape, result = known(node.inputs[0].shape, "gather"), known(node.shape, "gather")
    if 0 in result:
        return w.constant(np.empty(result), node.type.dtype)
    sizes = known(op.slice_sizes, "gather")
    places, batch = vectors(w, indices, node.inputs[1], op.index_vector_dim, op.start_index_map)
    last = np.array([shape[a] - sizes[a] for a in op.start_index_map], np.int64)
    places = w.least(w.most(places, w.constant(0)), w.constant(last))
    starts = batching(
        shape, batch, op.operand_batching_dims, op.start_indices_batching_dims, op.index_vector_dim
    )
    place = first_element(w, places, shape, op.start_index_map, starts)
    kept = tuple(
        a
        for a in range(len(shape))
        if a not in (*op.collapsed_slice_dims, *op.operand_batching_dims)
    )
    offsets = window(shape, sizes, kept)
    place = w.op("Add", w.reshape(place, (*batch, *[1] * len(kept))), w.constant(offsets))
    mixed = [a for a in range(len(result)) if a not in op.offset_dims]
    order = [
        mixed.index(a) if a in mixed else len(mixed) + sorted(op.offset_dims).index(a)
        for a in range(len(result))
    ]
    return w.op("Gather", w.op("Reshape", x, w.constant([-1])), w.transpose(place, order), axis=0)


def rows(node: Node) -> int | None:
    """The axis along which whole slices are taken, for a gather that does nothing else; None
    otherwise.
    """
    op = node.op
    assert isinstance(op, Gather)
    if (
        len(op.start_index_map) != 1
        or op.collapsed_slice_dims != op.start_index_map
        or op.operand_batching_dims
    ):
        return None
    axis, x = op.start_index_map[0], node.inputs[0].shape
    if (
        op.slice_sizes != tuple(1 if a == axis else n for a, n in enumerate(x))
        or op.index_vector_dim < node.inputs[1].type.rank - 1
    ):
        return None
    count = op.index_vector_dim
    return (
        axis
        if op.offset_dims == (*range(axis), *range(axis + count, len(x) - 1 + count))
        and x[axis] != 0
        else None
    )


def points(node: Node) -> bool:
    """Whether the first axes are indexed together and the others are taken whole, as by
    GatherND.
    """
    op = node.op
    assert isinstance(op, Gather)
    x, indices = (n.type for n in node.inputs)
    count, batch = len(op.start_index_map), indices.rank - 1
    first = (*range(count),)
    return (
        0 < count == len(op.collapsed_slice_dims)
        and op.start_index_map == first == tuple(sorted(op.collapsed_slice_dims))
        and not op.operand_batching_dims
        and op.index_vector_dim == batch
        and 0 not in (*x.shape, *node.shape)
        and op.slice_sizes[count:] == x.shape[count:]
        and op.offset_dims == (*range(batch, batch + x.rank - count),)
    )


@rule("scatter")
def scatter(w: OnnxWriter, node: Node, *operands: str) -> str | list[str]:
    """ScatterElements into the flattened tensor, without updates that are out of range."""
    op = node.op
    assert isinstance(op, Scatter)
    if op.combine == "body":
        raise Unsaid("ONNX combines updates by add, mul, max and min only")
    x, indices, updates = operands
    source, where, new = node.inputs
    shape, update = known(source.shape, "scatter"), known(new.shape, "scatter")
    total = int(np.prod(shape, dtype=np.int64))
    if 0 in update:
        return w.op("Identity", x)
    places, batch = vectors(w, indices, where, op.index_vector_dim, op.scatter_dims_to_operand_dims)
    kept = tuple(
        a for a in range(len(shape)) if a not in (*op.inserted_window_dims, *op.input_batching_dims)
    )
    sizes = [1] * len(shape)
    for axis, spot in zip(kept, sorted(op.update_window_dims), strict=True):
        sizes[axis] = update[spot]
    mapped = op.scatter_dims_to_operand_dims
    offset = (
        np.stack(np.broadcast_arrays(*[window(shape, tuple(sizes), kept)]))
        if kept
        else np.zeros((1,), np.int64)
    )
    inside = _inside(w, places, shape, sizes, kept, mapped, batch)
    bounded = w.least(w.most(places, w.constant(-total - 1)), w.constant(total + 1))
    starts = batching(
        shape, batch, op.input_batching_dims, op.scatter_indices_batching_dims, op.index_vector_dim
    )
    place = first_element(w, bounded, shape, mapped, starts)
    flat = w.op(
        "Add", w.reshape(place, (int(np.prod(batch)), 1)), w.constant(offset.reshape(1, -1))
    )
    # those out of range are written past the last element
    spare = w.op("Where", inside, flat, w.constant(total))
    order = [
        *(a for a in range(len(update)) if a not in op.update_window_dims),
        *sorted(op.update_window_dims),
    ]
    return _written(
        w, node, x, w.op("Reshape", spare, w.constant([-1])), w.transpose(updates, order), total
    )


def _inside(
    w: OnnxWriter, places: str, shape: Ints, sizes: list[int], kept: Ints, mapped: Ints, batch: Ints
) -> str:
    """Whether each element of each update is in range: a matrix of bools."""
    inside = w.constant(np.ones((int(np.prod(batch)), 1), np.bool_), DType.BOOL)
    for number, axis in enumerate(mapped):
        start = w.op(
            "Slice", places, w.constant([number]), w.constant([number + 1]), w.constant([1])
        )
        if axis in kept:
            line = np.arange(sizes[axis]).reshape([-1 if a == axis else 1 for a in kept])
            steps = np.broadcast_to(line, [sizes[a] for a in kept]).reshape(1, -1)
        else:
            steps = np.zeros((1, 1), np.int64)
        low = w.op("GreaterOrEqual", start, w.constant(-steps))
        high = w.op("Less", start, w.constant(shape[axis] - steps))
        inside = w.op("And", inside, w.op("And", low, high))
    return inside


def _written(w: OnnxWriter, node: Node, x: str, places: str, updates: str, total: int) -> str:
    """Updates combined into x at positions of the flattened tensor; position `total` is dropped."""
    combine, dtype = str(node.op.combine), node.type.dtype  # type: ignore[attr-defined]
    kind = STORED.get(dtype, dtype) if combine != "assign" else dtype
    flat, new = w.op("Reshape", x, w.constant([-1])), w.op("Reshape", updates, w.constant([-1]))
    if kind is not dtype:
        flat, new = w.cast(flat, kind), w.cast(new, kind)
    longer = padded(w, flat, w.constant([0, 1]), w.constant(0, kind), kind)
    reduction = "none" if combine == "assign" else combine
    updated = w.op("ScatterElements", longer, places, new, axis=0, reduction=reduction)
    updated = w.op("Slice", updated, w.constant([0]), w.constant([total]), w.constant([0]))
    return w.reshape(w.cast(updated, dtype) if kind is not dtype else updated, node.shape)
