"""Indexed writes. Negative indices count from the end."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.frontends.torch.errors import NotExpressible
from xlac.frontends.torch.families.math.logic import where
from xlac.frontends.torch.families.tensor.indexing import (
    index_axes,
    place_of_indices,
    to_front,
    vectors,
    wrapped,
)
from xlac.frontends.torch.families.tensor.scatter import REDUCES, Combine, divided, identity_of
from xlac.frontends.torch.table import AtenCall, Scalar, aten
from xlac.ir.dims import Dim, volume
from xlac.ir.graph import Node
from xlac.ir.op import normal_axis
from xlac.ir.permutations import inverse
from xlac.ops import build
from xlac.ops.tensor.scatter import Scatter
from xlac_sdk.dtypes import DType


@aten("index_put", "_unsafe_index_put", "index_put_", "_index_put_impl_")
def index_put(
    call: AtenCall,
    x: Node,
    indices: Sequence[Node | None],
    values: Node,
    accumulate: bool = False,
    *_: bool,
) -> Node:
    """x with values written, or added if `accumulate`, at the given indices; the in-place forms
    return the new tensor.
    """
    masks = [i for i in indices if i is not None and i.type.dtype in (DType.BOOL, DType.U8)]
    if masks:
        return _masked_put(call, x, indices, values, accumulate)
    axes, places = index_axes(call, x, indices)
    if not axes:
        wide = build.broadcast_to(values, x.shape)
        return added(x, wide) if accumulate else wide
    at, count = place_of_indices(axes), places[0].type.rank
    front = to_front(axes, x.type.rank)
    rest = [x.shape[a] for a in front[len(axes) :]]
    shape = (*rest[:at], *places[0].shape, *rest[at:])
    updates = build.broadcast_to(values, shape)
    updates = build.transpose(
        updates, [*range(at, at + count), *range(at), *range(at + count, len(shape))]
    )
    combine: Combine = "add" if accumulate else "assign"
    if accumulate and x.type.dtype is DType.BOOL:
        combine = "max"
    written = scatter_vectors(build.transpose(x, front), vectors(places), updates, combine)
    return build.transpose(written, inverse(front))


def added(x: Node, y: Node) -> Node:
    """x + y; for bools logical or."""
    return build.apply1("or" if x.type.dtype is DType.BOOL else "add", x, y)


def scatter_vectors(x: Node, places: Node, updates: Node, combine: Combine) -> Node:
    """Updates combined into x at index vectors over its first axes; bools are converted
    to numbers.
    """
    if x.type.dtype is DType.BOOL and combine != "assign":
        numbers = (build.cast(x, DType.U8), places, build.cast(updates, DType.U8))
        return build.cast(scatter_vectors(*numbers, combine), DType.BOOL)
    return build.apply1("scatter_nd", x, places, updates, combine=combine)


def _masked_put(
    call: AtenCall, x: Node, indices: Sequence[Node | None], values: Node, accumulate: bool
) -> Node:
    """One mask over the leading axes, and one value (or one for each of the remaining axes)."""
    mask, *more = indices
    if mask is None or any(m is not None for m in more):
        raise NotExpressible("a boolean mask combined with other indices")
    depth = mask.type.rank
    if values.type.rank > x.type.rank - depth and not (
        values.type.rank == x.type.rank - depth + 1 and values.shape[0] == 1
    ):
        raise NotExpressible("a separate value for each element that a boolean mask selects")
    wide = build.reshape(build.cast(mask, DType.BOOL), (*mask.shape, *[1] * (x.type.rank - depth)))
    given = (
        build.reshape(values, values.shape[1:])
        if values.type.rank > x.type.rank - depth
        else values
    )
    new = added(x, build.broadcast_to(given, x.shape)) if accumulate else given
    return where(call, wide, new, x)


@aten("embedding_dense_backward")
def embedding_backward(
    call: AtenCall,
    grad: Node,
    indices: Node,
    num_weights: Dim,
    padding_idx: int,
    scale_by_freq: bool,
) -> Node:
    """The rows of `grad` summed by the table row that they were read from."""
    wide = build.compute(grad)
    rows: Dim = volume(indices.shape)
    flat = build.cast(build.reshape(indices, (rows,)), DType.I64)
    updates = build.reshape(wide, (rows, grad.shape[-1]))
    if scale_by_freq:
        ones = build.full(1.0, (rows,), updates.type.dtype)
        counts = build.apply1(
            "scatter_nd",
            build.full(0.0, (num_weights,), ones.type.dtype),
            build.reshape(flat, (rows, 1)),
            ones,
            combine="add",
        )
        updates = build.div(updates, build.reshape(build.take(counts, flat, 0), (rows, 1)))
    if padding_idx >= 0:
        keep = build.reshape(build.compare(flat, "ne", padding_idx), (rows, 1))
        updates = build.select(keep, updates, 0.0)
    op = Scatter((1,), (0,), (), (), (0,), 1, "add")
    zero = build.full(0.0, (num_weights, grad.shape[-1]), wide.type.dtype)
    return build.cast(Node.of(op, zero, build.reshape(flat, (rows, 1)), updates), call.dtype)


@aten("masked_scatter")
def masked_scatter(call: AtenCall, x: Node, mask: Node, source: Node) -> Node:
    """Writes the elements of `source` in order where the mask is true."""
    wide = call.filled(mask, DType.BOOL)
    size = volume(call.shape)
    flat = build.reshape(wide, (size,))
    rank = build.apply1("cumsum", build.cast(flat, DType.I64), axis=0, exclusive=True)
    chosen = build.take(build.reshape(source, (source.type.size,)), rank, 0)
    return build.select(wide, build.reshape(chosen, call.shape), call.filled(x))


@aten("index_add")
def index_add(
    call: AtenCall, x: Node, dim: int, index: Node, source: Node, alpha: Scalar = 1
) -> Node:
    """x with slices of alpha source added at `index` along an axis."""
    if alpha != 1:
        mnemonic = "and" if source.type.dtype is DType.BOOL else "mul"
        source = build.apply1(mnemonic, source, call.node(alpha, source.type.dtype))
    return _by_slices(call, x, dim, index, source, "add")


@aten("index_copy")
def index_copy(call: AtenCall, x: Node, dim: int, index: Node, source: Node) -> Node:
    """x with slices replaced at `index` along an axis."""
    return _by_slices(call, x, dim, index, source, "assign")


@aten("index_reduce")
def index_reduce(
    call: AtenCall,
    x: Node,
    dim: int,
    index: Node,
    source: Node,
    reduce: str,
    include_self: bool = True,
) -> Node:
    """Slices combined into x at `index` along an axis. Without `include_self` the former values of
    slices that get updates are ignored.
    """
    combine, dtype = REDUCES[reduce], x.type.dtype
    ones = build.full(1, source.shape, DType.I64)
    if not include_self:
        hit = _by_slices(call, build.full(0, x.shape, DType.I64), dim, index, ones, "max")
        start = build.broadcast_to(build.constant(identity_of(combine, dtype), dtype), x.shape)
        x = build.select(build.compare(hit, "eq", 1), start, x)
    total = _by_slices(call, x, dim, index, source, combine)
    if reduce != "mean":
        return total
    count = _by_slices(
        call, build.full(int(include_self), x.shape, DType.I64), dim, index, ones, "add"
    )
    return divided(total, build.maximum(count, 1))


@aten("put")
def put(call: AtenCall, x: Node, index: Node, source: Node, accumulate: bool = False) -> Node:
    """Elements written or added at row-major flat indices."""
    size = x.type.size
    places = build.reshape(wrapped(call, index, size), (index.type.size, 1))
    updates = build.reshape(source, (index.type.size,))
    written = scatter_vectors(
        build.reshape(x, (size,)), places, updates, "add" if accumulate else "assign"
    )
    return build.reshape(written, x.shape)


def _by_slices(
    call: AtenCall, x: Node, dim: int, index: Node, source: Node, combine: Combine
) -> Node:
    if not x.shape:
        return build.reshape(
            _by_slices(
                call, build.reshape(x, (1,)), 0, index, build.reshape(source, (1,)), combine
            ),
            (),
        )
    axis = normal_axis(dim, x.type.rank)
    front = [axis, *(a for a in range(x.type.rank) if a != axis)]
    places = build.reshape(wrapped(call, index, x.shape[axis]), (index.type.size, 1))
    source = source if source.shape else build.reshape(source, (1,))
    written = scatter_vectors(
        build.transpose(x, front), places, build.transpose(source, front), combine
    )
    return build.transpose(written, inverse(front))
