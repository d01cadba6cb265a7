"""Indexed reads: Gather, GatherElements, GatherND, OneHot, … (ONNX operator sets 1 to 24)."""

from __future__ import annotations

from xlac.frontends.known import DataDependent
from xlac.frontends.limits import check_size
from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.graph.values import Coded, Ragged, Value
from xlac.frontends.onnx.ops.tensor.shape import view
from xlac.frontends.onnx.registry import operator
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import normal_axis
from xlac.ops import build
from xlac.ops.tensor.gather import Gather
from xlac_sdk.dtypes import DType


def counted(indices: Node, size: Dim, source: Node, axis: int) -> Node:
    """Indices with negative entries, which count from the end of the axis, made non-negative."""
    if not indices.type.dtype.is_signed:
        return indices
    wide = build.cast(indices, DType.I64)
    return build.select(build.compare(wide, "lt", 0), build.add(wide, extent(source, axis)), wide)


def extent(x: Node, axis: int) -> Node:
    """The size of an axis as an i64 scalar."""
    return build.cast(build.apply1("dim_size", x, axis=axis), DType.I64)


@operator("Gather")
def gather(call: OperatorCall) -> Value:
    """Slices along an axis; the number of indices may be data-dependent."""
    value, indices = call.coded(0), call.given(1)
    x = value.node if isinstance(value, Coded) else value
    axis = normal_axis(call.attr("axis", 0), x.type.rank)
    places = indices.node if isinstance(indices, Ragged) else call[1]
    slices = build.take(x, counted(places, x.shape[axis], x, axis), axis)
    if isinstance(indices, Ragged) and not isinstance(value, Coded):
        return Ragged(slices, tuple((axis + at, count) for at, count in indices.counts))
    return Coded(slices, value.format) if isinstance(value, Coded) else slices


@view("GatherElements", since=11)
def gather_elements(call: OperatorCall, x: Node) -> Node:
    """Negative indices count from the end."""
    axis = normal_axis(call.attr("axis", 0), x.type.rank)
    indices = call[1]
    smaller = [
        (a, size) for a, size in enumerate(indices.shape) if a != axis and size != x.shape[a]
    ]
    for a, size in smaller:
        x = build.cut(x, a, 0, size)
    return build.apply1("take_along_axis", x, counted(indices, x.shape[axis], x, axis), axis=axis)


@operator("GatherND", since=11)
def gather_nd(call: OperatorCall) -> Value:
    """Slices at the index vectors along the last axis of the indices; the number of vectors may be
    data-dependent.
    """
    value, indices = call.coded(0), call.given(1)
    x = value.node if isinstance(value, Coded) else value
    slices = _vectors(call, x, indices.node if isinstance(indices, Ragged) else call[1])
    if isinstance(indices, Ragged) and not isinstance(value, Coded):
        if any(axis >= indices.node.type.rank - 1 for axis, _ in indices.counts):
            raise DataDependent("the number of positions is data-dependent")
        return Ragged(slices, indices.counts)
    return Coded(slices, value.format) if isinstance(value, Coded) else slices


def _vectors(call: OperatorCall, x: Node, indices: Node) -> Node:
    """The slices of x at index vectors, with `batch_dims` leading axes shared by both."""
    batch = call.attr("batch_dims", 0)
    depth = indices.shape[-1] if indices.shape else 0
    if (
        not isinstance(depth, int)
        or not 0 <= batch <= x.type.rank - depth
        or batch >= indices.type.rank
    ):
        call.fail(f"indices of {indices.type} with {batch} batch axes do not fit {x.type}")
    parts = [
        counted(
            build.cut(indices, indices.type.rank - 1, n, n + 1), x.shape[batch + n], x, batch + n
        )
        for n in range(depth)
    ]
    vectors = build.concat(parts, -1) if parts else build.cast(indices, DType.I64)
    rest = range(batch + depth, x.type.rank)
    outer = indices.type.rank - 1
    op = Gather(
        offset_dims=tuple(range(outer, outer + len(rest))),
        collapsed_slice_dims=tuple(range(batch, batch + depth)),
        operand_batching_dims=tuple(range(batch)),
        start_indices_batching_dims=tuple(range(batch)),
        start_index_map=tuple(range(batch, batch + depth)),
        index_vector_dim=outer,
        slice_sizes=tuple(size if a in rest else 1 for a, size in enumerate(x.shape)),
    )
    return Node.of(op, x, vectors)


@operator("OneHot", since=9)
def one_hot(call: OperatorCall) -> Node:
    """`values` holds the off value and the on value; an index outside [-depth, depth) gives all
    off.
    """
    indices, values = call[0], call[2]
    (depth,) = (int(v) for v in call.value(1).reshape(-1))
    rank = indices.type.rank + 1
    axis = normal_axis(call.attr("axis", -1), rank)
    shape = [*indices.shape[:axis], depth, *indices.shape[axis:]]
    check_size(shape, values.type.dtype.nbytes)
    wide = indices if indices.type.dtype.is_float else build.cast(indices, DType.I64)
    wide = build.select(
        build.compare(wide, "lt", 0), build.add(wide, build.constant(depth, wide.type.dtype)), wide
    )
    at = build.cast(build.iota(shape, axis), wide.type.dtype)
    hit = build.compare(
        build.reshape(wide, [*indices.shape[:axis], 1, *indices.shape[axis:]]), "eq", at
    )
    return build.select(hit, _entry(values, 1), _entry(values, 0))


def _entry(x: Node, number: int) -> Node:
    return build.reshape(build.cut(x, 0, number, number + 1), [])


@operator("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(call: OperatorCall) -> Node:
    """Elements of the last axis, by position."""
    x, chosen = call[0], build.reshape(call[1], [-1])
    taken = build.take(x, chosen, x.type.rank - 1)
    return build.reshape(taken, [1, *taken.shape]) if x.type.rank == 1 else taken


@operator("TopK", since=1)
def top_k(call: OperatorCall) -> tuple[Node, ...]:
    """The k largest (or smallest) elements along an axis and their indices; among equals the lower
    index comes first.
    """
    x = call[0]
    k = int(call.value(1).reshape(())) if call.given(1) is not None else call.attr("k")
    axis = normal_axis(call.attr("axis", -1), x.type.rank)
    results = build.apply("topk", x, k=k, axis=axis, largest=bool(call.attr("largest", 1)))
    assert isinstance(results, tuple)
    return results
