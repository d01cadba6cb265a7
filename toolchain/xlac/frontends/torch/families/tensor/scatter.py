"""Scatter along an axis, with and without a reduction."""

from __future__ import annotations

from typing import Literal

import numpy as np

from xlac.frontends.torch.families.tensor.indexing import wrapped
from xlac.frontends.torch.table import AtenCall, Scalar, aten
from xlac.ir.graph import Node
from xlac.ir.op import normal_axis
from xlac.ops import build
from xlac_sdk.dtypes import DType

Combine = Literal["assign", "add", "mul", "max", "min"]


def scattered(
    call: AtenCall, x: Node, dim: int, index: Node, updates: Node, combine: Combine
) -> Node:
    """Elements of `updates` combined into x along an axis, one for each index; `updates` may be
    larger than the indices.
    """
    if not x.shape:
        flat = [build.reshape(v, (1,)) for v in (x, index, updates)]
        return build.reshape(scattered(call, flat[0], 0, flat[1], flat[2], combine), ())
    if any(size == 0 for size in index.shape):
        return x
    axis = normal_axis(dim, x.type.rank)
    index = index if index.shape else build.reshape(index, (1,))
    updates = updates if updates.shape else build.reshape(updates, (1,))
    for other in range(x.type.rank):
        updates = build.cut(updates, other, 0, index.shape[other])
    places = wrapped(call, index, x.shape[axis])
    if x.type.dtype is DType.BOOL and combine != "assign":
        wide = build.apply1(
            "scatter_elements",
            build.cast(x, DType.U8),
            places,
            build.cast(updates, DType.U8),
            axis=axis,
            combine=combine,
        )
        return build.cast(wide, DType.BOOL)
    return build.apply1("scatter_elements", x, places, updates, axis=axis, combine=combine)


@aten("scatter.src")
def scatter_src(call: AtenCall, x: Node, dim: int, index: Node, src: Node) -> Node:
    """x with elements of src written along an axis where `index` says."""
    return scattered(call, x, dim, index, src, "assign")


@aten("scatter.value")
def scatter_value(call: AtenCall, x: Node, dim: int, index: Node, value: Scalar) -> Node:
    """x with a number written along an axis where `index` says."""
    return scattered(
        call,
        x,
        dim,
        index,
        build.broadcast_to(call.node(value, x.type.dtype), index.shape),
        "assign",
    )


@aten("scatter_add")
def scatter_add(call: AtenCall, x: Node, dim: int, index: Node, src: Node) -> Node:
    """x with elements of src added along an axis where `index` says."""
    return scattered(call, x, dim, index, src, "add")


REDUCES: dict[str, Combine] = {
    "sum": "add",
    "add": "add",
    "mean": "add",
    "prod": "mul",
    "multiply": "mul",
    "amax": "max",
    "amin": "min",
}


@aten("scatter_reduce.two")
def scatter_reduce(
    call: AtenCall,
    x: Node,
    dim: int,
    index: Node,
    src: Node,
    reduce: str,
    include_self: bool = True,
) -> Node:
    """Scatter with a reduction. Without `include_self` the former values of elements that get
    updates are ignored.
    """
    combine, dtype = REDUCES[reduce], x.type.dtype
    ones = build.full(1, index.shape, DType.I64)
    if not include_self:
        hit = scattered(call, build.full(0, x.shape, DType.I64), dim, index, ones, "max")
        x = build.select(
            build.compare(hit, "eq", 1),
            build.broadcast_to(build.constant(identity_of(combine, dtype), dtype), x.shape),
            x,
        )
    total = scattered(call, x, dim, index, src, combine)
    if reduce != "mean":
        return total
    start = build.full(int(include_self), x.shape, DType.I64)
    return divided(total, build.maximum(scattered(call, start, dim, index, ones, "add"), 1))


def identity_of(combine: Combine, dtype: DType) -> float | int:
    """The identity element of a combination."""
    if combine in ("add", "mul"):
        return int(combine == "mul")
    if dtype.is_float:
        return -np.inf if combine == "max" else np.inf
    if dtype is DType.BOOL:
        return combine == "min"
    limits = np.iinfo(dtype.numpy)
    return int(limits.min if combine == "max" else limits.max)


@aten("scatter.reduce")
def scatter_with(call: AtenCall, x: Node, dim: int, index: Node, src: Node, reduce: str) -> Node:
    """x combined with elements of src ("add" or "multiply") where `index` says."""
    return scattered(call, x, dim, index, src, REDUCES[reduce])


@aten("scatter.value_reduce")
def scatter_value_with(
    call: AtenCall, x: Node, dim: int, index: Node, value: Scalar, reduce: str
) -> Node:
    """x combined with a number ("add" or "multiply") where `index` says."""
    return scattered(
        call,
        x,
        dim,
        index,
        build.broadcast_to(call.node(value, x.type.dtype), index.shape),
        REDUCES[reduce],
    )


def divided(total: Node, count: Node) -> Node:
    """Sums over counts; integers are rounded down."""
    dtype = total.type.dtype
    if not dtype.is_float:
        return build.apply1("floor_divide", total, build.cast(count, dtype))
    return build.cast(build.div(build.compute(total), build.cast(count, dtype.compute)), dtype)
