"""Sums, means and maxima over bags of rows of a table. Offsets state where bags begin."""

from __future__ import annotations

from xlac.frontends.torch.errors import NotExpressible
from xlac.frontends.torch.table import AtenCall, aten
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType

SUM, MEAN, MAX = 0, 1, 2


def bags_of(offsets: Node, count: Dim) -> Node:
    """The bag of each of `count` indices, i64: the last one whose offset is not greater."""
    shape = (offsets.shape[0], count)
    begun = build.compare(
        build.broadcast_to(build.reshape(build.cast(offsets, DType.I64), (shape[0], 1)), shape),
        "le",
        build.iota(shape, 1, DType.I64),
    )
    return build.sub(build.reduce(build.cast(begun, DType.I64), "add", 0), 1)


def collected(rows: Node, places: Node, like: Node, combine: str) -> Node:
    """`like`, with each row combined into the row at its index in `places`."""
    at = build.reshape(places, (places.shape[0], 1))
    return build.apply1("scatter_nd", like, at, rows, combine=combine)


def column(x: Node) -> Node:
    """A vector as a column."""
    return build.reshape(x, (x.shape[0], 1))


@aten("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    call: AtenCall,
    weight: Node,
    indices: Node,
    offsets: Node,
    scale_grad_by_freq: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    per_sample_weights: Node | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Node | None, ...]:
    """The reduced rows (bags, columns), the bag of each index, the size of each bag without
    padding, and the index of each maximum.
    """
    bags, columns = call.shape
    at, size = build.cast(indices, DType.I64), indices.shape[0]
    member = bags_of(offsets, size)
    counted = build.full(1, (size,), DType.I64)
    rows = build.compute(build.take(weight, at, 0))
    dtype = rows.type.dtype
    if per_sample_weights is not None:
        rows = build.mul(rows, column(build.compute(per_sample_weights)))
    if padding_idx >= 0:
        counted = build.cast(build.compare(at, "ne", padding_idx), DType.I64)
    real = build.broadcast_to(column(build.compare(counted, "ne", 0)), rows.shape)
    sizes = collected(counted, member, build.full(0, (bags,), DType.I64), "add")
    wide = build.broadcast_to(column(sizes), (bags, columns))
    places = None
    if mode == MAX:
        least = build.full(float("-inf"), (bags, columns), dtype)
        result = collected(build.select(real, rows, float("-inf")), member, least, "max")
        places = _of_maxima(result, rows, real, member, at)
        result = build.select(build.compare(wide, "eq", 0), 0.0, result)
    else:
        zero = build.full(0, (bags, columns), dtype)
        result = collected(build.select(real, rows, 0.0), member, zero, "add")
        if mode == MEAN:
            result = build.div(result, build.cast(build.maximum(wide, 1), dtype))
    return (build.cast(result, call.dtype), *_stated(call, (member, sizes, places)))


def _of_maxima(maxima: Node, rows: Node, real: Node, member: Node, at: Node) -> Node:
    """The first index in each bag whose row has the column's maximum."""
    last = build.full(2**62, maxima.shape, DType.I64)
    is_it = build.compare(rows, "eq", build.take(maxima, member, 0))
    is_it = build.apply1("and", is_it, real)
    order = build.broadcast_to(column(build.iota(at.shape, 0, DType.I64)), rows.shape)
    first = collected(build.select(is_it, order, 2**62), member, last, "min")
    none = build.compare(first, "eq", 2**62)
    return build.select(none, 0, build.take(at, build.select(none, 0, first), 0))


def _stated(call: AtenCall, results: tuple[Node | None, ...]) -> list[Node | None]:
    """The other results, in the sizes that PyTorch states; some are empty there."""
    stated: list[Node | None] = []
    for number, node in enumerate(results, 1):
        wanted = call.results[number]
        if wanted is None:
            stated.append(None)
        elif node is None or node.type.rank != len(wanted.shape) or wanted.shape[0] == 0:
            stated.append(build.full(0, wanted.shape, wanted.dtype))
        else:
            node = build.cast(node, wanted.dtype)
            if node.shape != wanted.shape:  # one element more than there are bags
                node = build.concat([node, build.full(0, (1,), wanted.dtype)], 0)
            stated.append(node)
    return stated


@aten("_embedding_bag_backward")
def embedding_bag_backward(
    call: AtenCall,
    grad: Node,
    indices: Node,
    offsets: Node,
    offset2bag: Node,
    bag_size: Node,
    maximum_indices: Node,
    num_weights: Dim,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Node | None = None,
    padding_idx: int = -1,
) -> Node:
    """The gradient of the table, dense."""
    if sparse:
        raise NotExpressible("a sparse gradient")
    member = bags_of(offsets, indices.shape[0])
    return dense_backward(
        call,
        grad,
        indices,
        member,
        bag_size,
        maximum_indices,
        num_weights,
        scale_grad_by_freq,
        mode,
        per_sample_weights,
        padding_idx,
    )


@aten("_embedding_bag_dense_backward")
def dense_backward(
    call: AtenCall,
    grad: Node,
    indices: Node,
    offset2bag: Node,
    bag_size: Node,
    maximum_indices: Node,
    num_weights: Dim,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Node | None = None,
    padding_idx: int = -1,
) -> Node:
    """The gradient of the table: each row gets the gradient of its bag; for maxima only the row
    with the maximum.
    """
    wide = build.compute(grad)
    dtype, (bags, columns) = wide.type.dtype, wide.shape
    zero = build.full(0, (num_weights, columns), dtype)
    if mode == MAX:
        full = build.compare(build.cut(bag_size, 0, 0, bags), "ne", 0)
        given = build.select(build.broadcast_to(column(full), wide.shape), wide, 0.0)
        rows = build.cast(maximum_indices, DType.I64)
        ends = [rows, build.iota(rows.shape, 1, DType.I64)]
        at = build.concat([build.reshape(v, (*v.shape, 1)) for v in ends], 2)
        return build.cast(build.apply1("scatter_nd", zero, at, given, combine="add"), call.dtype)
    at, member = build.cast(indices, DType.I64), build.cast(offset2bag, DType.I64)
    given = build.take(wide, member, 0)
    if mode == MEAN:
        sizes = build.cast(build.maximum(build.take(bag_size, member, 0), 1), dtype)
        given = build.div(given, column(sizes))
    if per_sample_weights is not None:
        given = build.mul(given, column(build.compute(per_sample_weights)))
    if scale_grad_by_freq:
        ones = build.full(1, at.shape, dtype)
        counts = collected(ones, at, build.full(0, (num_weights,), dtype), "add")
        given = build.div(given, column(build.take(counts, at, 0)))
    if padding_idx >= 0:
        kept = build.broadcast_to(column(build.compare(at, "ne", padding_idx)), given.shape)
        given = build.select(kept, given, 0.0)
    return build.cast(collected(given, at, zero, "add"), call.dtype)


@aten("_embedding_bag_per_sample_weights_backward")
def weights_backward(
    call: AtenCall,
    grad: Node,
    weight: Node,
    indices: Node,
    offsets: Node,
    offset2bag: Node,
    mode: int,
    padding_idx: int = -1,
) -> Node:
    """The gradients of per-sample weights: each row times the gradient of its bag."""
    at = build.cast(indices, DType.I64)
    given = build.take(build.compute(grad), bags_of(offsets, indices.shape[0]), 0)
    gradient = build.reduce(build.mul(given, build.compute(build.take(weight, at, 0))), "add", 1)
    if padding_idx >= 0:
        gradient = build.select(build.compare(at, "ne", padding_idx), gradient, 0.0)
    return build.cast(gradient, call.dtype)
