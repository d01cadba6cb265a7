"""Views and rearrangements: reshape, transpose, slices, concatenation, padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlac.frontends.torch.errors import NotExpressible
from xlac.frontends.torch.table import AtenCall, Scalar, aten
from xlac.ir.dims import Dim, Shape, Sym, bounds, volume
from xlac.ir.graph import Node
from xlac.ir.op import normal_axis
from xlac.ir.permutations import inverse
from xlac.ops import build
from xlac_sdk.dtypes import DType


@aten(
    "view",
    "_unsafe_view",
    "reshape",
    "view_copy",
    "_reshape_alias",
    "squeeze",
    "squeeze.dim",
    "squeeze.dims",
    "unsqueeze",
    "flatten.using_ints",
    "_reshape_copy",
)
def reshaped(call: AtenCall, x: Node, *_: Any, **__: Any) -> Node:
    """All reshaping views: the shape is that of the result as PyTorch states it."""
    return build.reshape(x, call.shape)


@aten("permute", "permute_copy")
def permute(call: AtenCall, x: Node, dims: Sequence[int]) -> Node:
    """The axes in another order."""
    return build.transpose(x, dims)


@aten("t")
def t(call: AtenCall, x: Node) -> Node:
    """A matrix transposed; vectors are unchanged."""
    return build.transpose(x)


@aten("transpose.int")
def transpose(call: AtenCall, x: Node, dim0: int, dim1: int) -> Node:
    """Two axes exchanged."""
    if not x.shape:
        return x
    perm = list(range(x.type.rank))
    perm[dim0], perm[dim1] = perm[dim1], perm[dim0]
    return build.transpose(x, perm)


@aten("expand", "expand_copy")
def expand(call: AtenCall, x: Node, size: Sequence[Dim], implicit: bool = False) -> Node:
    """Broadcast to the shape of the result."""
    return build.broadcast_to(x, call.shape)


def bound(position: Dim | None, size: Dim, otherwise: Dim) -> Dim:
    """A slice bound by PyTorch's rules: negative ones count from the end, and bounds
    are clamped.
    """
    if position is None:
        return otherwise
    if isinstance(position, int) and isinstance(size, int):
        return min(max(position + size if position < 0 else position, 0), size)
    if isinstance(position, int) and position < 0:
        position = size + position
    low, high = bounds(position - size)
    if low >= 0:
        return size
    if high > 0:
        raise NotExpressible(f"whether {position} is within an axis of {size} depends on sizes")
    return position


@aten("slice.Tensor", "slice_copy.Tensor")
def slice_(
    call: AtenCall,
    x: Node,
    dim: int = 0,
    start: Dim | None = None,
    end: Dim | None = None,
    step: int = 1,
) -> Node:
    """start:end:step along an axis; the end follows from the result's size."""
    axis = normal_axis(dim, x.type.rank)
    first, count = bound(start, x.shape[axis], 0), call.shape[axis]
    return build.cut(x, axis, first, first if count == 0 else first + (count - 1) * step + 1, step)


@aten("select.int", "select_copy.int")
def select(call: AtenCall, x: Node, dim: int, index: Dim) -> Node:
    """One slice along an axis, without the axis."""
    axis = normal_axis(dim, x.type.rank)
    at = x.shape[axis] + index if isinstance(index, int) and index < 0 else index
    return build.reshape(build.cut(x, axis, at, at + 1), call.shape)


@aten(
    "split_with_sizes",
    "split_with_sizes_copy",
    "split.Tensor",
    "unsafe_split.Tensor",
    "unsafe_split_with_sizes",
    "chunk",
    "unbind.int",
)
def split(call: AtenCall, x: Node, sizes: Any = 0, dim: int | None = None) -> list[Node]:
    """The parts have the sizes of the results; `unbind` also removes the axis."""
    unbound = dim is None and call.type.rank < x.type.rank
    axis = normal_axis((sizes if unbound else dim) or 0, x.type.rank)
    pieces, at = [], 0
    for part in call.results:
        assert part is not None
        size: Dim = 1 if unbound else part.shape[axis]
        pieces.append(build.reshape(build.cut(x, axis, at, at + size), part.shape))
        at = at + size  # type: ignore[assignment]
    return pieces


@aten("cat")
def cat(call: AtenCall, tensors: Sequence[Node], dim: int = 0) -> Node:
    """Tensors joined along an axis; empty vectors are skipped, as PyTorch does."""
    # the empty vectors that are skipped
    kept = [build.cast(x, call.dtype) for x in tensors if x.type.rank == call.type.rank]
    if not kept:
        return build.cast(tensors[0], call.dtype)
    return build.concat(kept, dim)


@aten("stack")
def stack(call: AtenCall, tensors: Sequence[Node], dim: int = 0) -> Node:
    """Tensors joined along a new axis."""
    axis = normal_axis(dim, call.type.rank)
    parts = [build.cast(x, call.dtype) for x in tensors]
    return build.concat(
        [build.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:])) for x in parts], axis
    )


@aten("flip")
def flip(call: AtenCall, x: Node, dims: Sequence[int]) -> Node:
    """Axes reversed."""
    return build.apply1("flip", x, axis=[normal_axis(d, x.type.rank) for d in dims]) if dims else x


@aten("repeat")
def repeat(call: AtenCall, x: Node, repeats: Sequence[Dim]) -> Node:
    """The whole tensor repeated along each axis, as NumPy's tile."""
    shape: tuple[Dim, ...] = (*[1] * (len(repeats) - x.type.rank), *x.shape)
    apart = [part for size in shape for part in (1, size)]
    spread = [part for count, size in zip(repeats, shape, strict=True) for part in (count, size)]
    return build.reshape(build.broadcast_to(build.reshape(x, apart), spread), call.shape)


@aten("roll")
def roll(call: AtenCall, x: Node, shifts: Sequence[int], dims: Sequence[int] = ()) -> Node:
    """Elements rotated along axes; without axes, in row-major order."""
    if not dims:
        flat = build.reshape(x, (x.type.size,))
        return build.reshape(_rolled(flat, shifts[0], 0), x.shape) if x.shape else x
    for shift, dim in zip(shifts, dims, strict=True):
        x = _rolled(x, shift, normal_axis(dim, x.type.rank))
    return x


def _rolled(x: Node, shift: int, axis: int) -> Node:
    size = x.shape[axis]
    if not isinstance(size, int):
        raise NotExpressible(f"an axis of unknown size {size} cannot be rolled")
    at = -shift % size if size else 0
    return (
        build.concat([build.cut(x, axis, at, size), build.cut(x, axis, 0, at)], axis) if at else x
    )


@aten("constant_pad_nd")
def constant_pad(call: AtenCall, x: Node, pad: Sequence[Dim], value: Scalar = 0) -> Node:
    """`pad` lists (low, high) from the last axis backwards; negative amounts crop."""
    low: list[Dim] = [0] * x.type.rank
    high: list[Dim] = [0] * x.type.rank
    for number in range(len(pad) // 2):
        low[-1 - number], high[-1 - number] = pad[2 * number], pad[2 * number + 1]
    return build.pad(x, call.node(value, x.type.dtype), low, high)


def _bordered(call: AtenCall, x: Node, padding: Sequence[int], mode: str) -> Node:
    pads = [(0, 0)] * x.type.rank
    for number in range(len(padding) // 2):
        axis, (low, high) = x.type.rank - 1 - number, padding[2 * number : 2 * number + 2]
        size = x.shape[axis]
        if low >= 0 and high >= 0:
            pads[axis] = low, high
        elif mode == "edge" and isinstance(size, int):
            # a negative width shifts the start of the index range
            x = build.take(
                x, build.constant(np.clip(np.arange(-low, size + high), 0, size - 1)), axis
            )
        else:
            raise NotExpressible("a border of negative width")
    return build.apply1("pad_mode", x, pads=pads, mode=mode)


@aten("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(call: AtenCall, x: Node, padding: Sequence[int]) -> Node:
    """Padding by reflection, without repeating the edge element."""
    return _bordered(call, x, padding, "reflect")


@aten("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(call: AtenCall, x: Node, padding: Sequence[int]) -> Node:
    """Padding by repeating the edge element."""
    return _bordered(call, x, padding, "edge")


@aten("diagonal", "diagonal_copy")
def diagonal(call: AtenCall, x: Node, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Node:
    """The diagonal of two axes as the last axis: a sum over rows masked to the diagonal."""
    a, b = normal_axis(dim1, x.type.rank), normal_axis(dim2, x.type.rank)
    rest = [axis for axis in range(x.type.rank) if axis not in (a, b)]
    moved = build.transpose(x, [*rest, a, b])
    count = call.shape[-1]
    if count == 0:
        return build.full(0, call.shape, call.dtype)
    first = (max(0, -offset), max(0, offset))
    rank = len(rest)
    for axis, start in zip((rank, rank + 1), first, strict=True):
        moved = build.cut(moved, axis, start, start + count)
    eye = build.compare(build.iota((count, count), 0), "eq", build.iota((count, count), 1))
    mask = build.broadcast_to(eye, moved.shape)
    kept = build.select(mask, moved, build.like(0, moved))
    if call.dtype is DType.BOOL:
        return build.reduce(kept, "or", rank + 1)
    return build.reduce(kept, "add", rank + 1)


@aten("as_strided", "as_strided_copy")
def as_strided(
    call: AtenCall,
    x: Node,
    size: Sequence[Dim],
    stride: Sequence[Dim],
    storage_offset: Dim | None = None,
) -> Node:
    """Elements at strided positions in the memory of x, which `importer.memory` passes in memory
    order.
    """
    places = strided_places(call, call.shape, stride, storage_offset or 0)
    return build.take(build.reshape(x, (x.type.size,)), places, 0)


def strided_places(call: AtenCall, shape: Shape, stride: Sequence[Dim], start: Dim) -> Node:
    """The index of each element of a strided tensor in its base's memory, i64."""
    places = build.broadcast_to(call.size(start), shape)
    for axis, step in enumerate(stride):
        if isinstance(step, Sym) or step:
            places = build.add(places, build.mul(build.iota(shape, axis), call.size(step)))
    return places


@aten("as_strided_scatter", "prims.as_strided_scatter.default")
def as_strided_scatter(
    call: AtenCall,
    x: Node,
    src: Node,
    size: Sequence[Dim],
    stride: Sequence[Dim],
    at: Dim,
    perm: Sequence[int] | None,
) -> Node:
    """x with elements at strided positions in its memory replaced; `importer` passes x in memory
    order, of which `perm` are the axes.
    """
    count = volume(tuple(size))
    places = build.reshape(strided_places(call, tuple(size), stride, at), (count, 1))
    flat, new = build.reshape(x, (x.type.size,)), build.reshape(src, (count,))
    scattered = build.reshape(build.apply1("scatter_nd", flat, places, new), x.shape)
    return scattered if perm is None else build.transpose(scattered, inverse(tuple(perm)))
