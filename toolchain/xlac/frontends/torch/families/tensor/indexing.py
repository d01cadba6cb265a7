"""Indexed reads. Negative indices count from the end where PyTorch allows them: in `x[indices]`."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.frontends.torch.errors import NotExpressible
from xlac.frontends.torch.table import AtenCall, aten
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import normal_axis
from xlac.ops import build
from xlac_sdk.dtypes import DType


def wrapped(call: AtenCall, indices: Node, size: Dim) -> Node:
    """Indices as i64, with negative ones made non-negative."""
    if not indices.type.dtype.is_signed:
        return build.cast(indices, DType.I64)
    wide = build.cast(indices, DType.I64)
    return build.select(build.compare(wide, "lt", 0), build.add(wide, call.size(size)), wide)


@aten("embedding")
def embedding(call: AtenCall, weight: Node, indices: Node, padding_idx: int = -1, *_: bool) -> Node:
    """Rows of the weight. `padding_idx` only affects gradients."""
    return build.take(weight, build.cast(indices, DType.I64), 0)


@aten("index_select")
def index_select(call: AtenCall, x: Node, dim: int, index: Node) -> Node:
    """Slices of x along an axis, by index."""
    if not x.shape:
        return build.reshape(x, call.shape)
    places = build.cast(build.reshape(index, (index.type.size,)), DType.I64)
    return build.take(x, places, normal_axis(dim, x.type.rank))


@aten("gather")
def gather(call: AtenCall, x: Node, dim: int, index: Node, sparse_grad: bool = False) -> Node:
    """Elements along an axis, by index; `index` may be smaller than x along other axes."""
    if not x.shape:
        return build.broadcast_to(x, call.shape)
    axis = normal_axis(dim, x.type.rank)
    index = index if index.shape else build.reshape(index, (1,))
    if any(size == 0 for size in call.shape):
        return build.full(0, call.shape, call.dtype)
    for other in range(x.type.rank):
        if other != axis:
            x = build.cut(x, other, 0, index.shape[other])
    index = build.cast(index, DType.I64)
    return build.reshape(build.apply1("take_along_axis", x, index, axis=axis), call.shape)


# ---- indexing by several tensors ----------------------------------------------------------------


def index_axes(
    call: AtenCall, x: Node, indices: Sequence[Node | None]
) -> tuple[list[int], list[Node]]:
    """The indexed axes, and their indices as i64, broadcast to one shape."""
    for entry in indices:
        if entry is not None and entry.type.dtype in (DType.BOOL, DType.U8):
            raise NotExpressible(
                "an index that is a mask: how many elements it chooses depends on its values"
            )
    axes = [a for a, entry in enumerate(indices) if entry is not None]
    places = [
        wrapped(call, entry, x.shape[a]) for a, entry in enumerate(indices) if entry is not None
    ]
    shape = build.broadcast_shapes([p.shape for p in places])
    return axes, [build.broadcast_to(p, shape) for p in places]


def vectors(places: Sequence[Node]) -> Node:
    """Index tensors of one shape stacked to index vectors along a new last axis."""
    rank = places[0].type.rank
    return build.concat([build.reshape(p, (*p.shape, 1)) for p in places], rank)


def to_front(axes: Sequence[int], rank: int) -> list[int]:
    """The permutation that moves the given axes to the front."""
    return [*axes, *(a for a in range(rank) if a not in axes)]


def place_of_indices(axes: Sequence[int]) -> int:
    """The position of the index axes in the result: at the first indexed axis if those are
    adjacent, else in front.
    """
    return axes[0] if list(axes) == list(range(axes[0], axes[0] + len(axes))) else 0


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(call: AtenCall, x: Node, indices: Sequence[Node | None]) -> Node:
    """NumPy's advanced indexing: None keeps an axis; the axes of non-adjacent indices
    come first.
    """
    axes, places = index_axes(call, x, indices)
    if not axes:
        return x
    if any(size == 0 for size in call.shape):
        return build.full(0, call.shape, call.dtype)
    at, count = place_of_indices(axes), places[0].type.rank
    if len(axes) == 1:
        taken = build.take(x, places[0], axes[0])
        return taken if at == axes[0] else build.reshape(taken, call.shape)
    taken = build.apply1(
        "gather_nd", build.transpose(x, to_front(axes, x.type.rank)), vectors(places)
    )
    rank = taken.type.rank
    return build.transpose(
        taken, [*range(count, count + at), *range(count), *range(count + at, rank)]
    )
