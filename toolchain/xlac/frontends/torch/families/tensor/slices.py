"""Slices written at static positions: along an axis, with a step, on a diagonal."""

from __future__ import annotations

from xlac.frontends.torch.errors import NotExpressible
from xlac.frontends.torch.families.tensor.views import bound
from xlac.frontends.torch.table import AtenCall, aten
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import normal_axis
from xlac.ir.permutations import inverse
from xlac.ops import build
from xlac_sdk.dtypes import DType


@aten("select_scatter")
def select_scatter(call: AtenCall, x: Node, src: Node, dim: int, index: int) -> Node:
    """x with one slice along an axis replaced."""
    axis = normal_axis(dim, x.type.rank)
    at = bound(index, x.shape[axis], 0)
    return _replaced(
        call, x, build.reshape(src, (*x.shape[:axis], 1, *x.shape[axis + 1 :])), axis, at, 1
    )


@aten("slice_scatter")
def slice_scatter(
    call: AtenCall,
    x: Node,
    src: Node,
    dim: int = 0,
    start: Dim | None = None,
    end: Dim | None = None,
    step: int = 1,
) -> Node:
    """x with the slice start:end:step along an axis replaced."""
    axis = normal_axis(dim, x.type.rank)
    return _replaced(call, x, src, axis, bound(start, x.shape[axis], 0), step)


def _replaced(call: AtenCall, x: Node, src: Node, axis: int, start: Dim, step: int) -> Node:
    """x with every `step`-th slice from `start` on replaced by those of `src`."""
    size, count = x.shape[axis], src.shape[axis]
    src = build.broadcast_to(
        build.cast(src, x.type.dtype), (*x.shape[:axis], count, *x.shape[axis + 1 :])
    )
    if count == 0:
        return x
    if step == 1:
        parts = [build.cut(x, axis, 0, start), src, build.cut(x, axis, start + count, size)]
        return build.concat([p for p in parts if p.shape[axis] != 0], axis)
    if not isinstance(size, int) or not isinstance(start, int) or not isinstance(count, int):
        raise NotExpressible("slices with a step are replaced along axes of known size only")
    low, high, between = [0] * x.type.rank, [0] * x.type.rank, [0] * x.type.rank
    low[axis], between[axis] = start, step - 1
    high[axis] = size - start - ((count - 1) * step + 1)
    wide = build.pad(src, build.constant(0, x.type.dtype), low, high, between)
    hit = build.pad(
        build.full(True, src.shape, DType.BOOL), build.constant(False), low, high, between
    )
    return build.select(hit, wide, x)


@aten("diagonal_scatter")
def diagonal_scatter(
    call: AtenCall, x: Node, src: Node, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Node:
    """x with a diagonal of two axes replaced."""
    rank = x.type.rank
    axes = normal_axis(dim1, rank), normal_axis(dim2, rank)
    perm = [*(a for a in range(rank) if a not in axes), *axes]
    moved = build.transpose(x, perm)
    rows, columns = moved.shape[-2:]
    first = max(0, -offset)
    outer = [0] * (rank - 2)
    along = build.pad(
        src,
        build.constant(0, x.type.dtype),
        [*outer, first],
        [*outer, rows - first - src.shape[-1]],
    )
    wide = build.broadcast_to(build.reshape(along, (*along.shape, 1)), moved.shape)
    gap = build.sub(build.iota((rows, columns), 1), build.iota((rows, columns), 0))
    written = build.select(
        build.broadcast_to(build.compare(gap, "eq", offset), moved.shape), wide, moved
    )
    return build.transpose(written, inverse(perm))
