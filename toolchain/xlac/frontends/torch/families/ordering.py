"""Sorting, and the largest elements."""

from __future__ import annotations

from xlac.frontends.torch.table import Call, aten
from xlac.ir.graph import Node
from xlac.ir.op import normal_axis
from xlac.ops import build
from xlac_sdk.dtypes import DType


@aten("sort")
def sort(call: Call, x: Node, dim: int = -1, descending: bool = False) -> tuple[Node, ...]:
    return _sorted(x, dim, descending)


@aten("sort.stable")
def sort_stable(call: Call, x: Node, stable: bool | None = None, dim: int = -1, descending: bool = False) -> tuple[Node, ...]:
    return _sorted(x, dim, descending)


def _sorted(x: Node, dim: int, descending: bool) -> tuple[Node, ...]:
    if not x.shape:
        return x, build.constant(0, DType.I64)
    axis = normal_axis(dim, x.type.rank)
    return build.sort([x, build.iota(x.shape, axis)], axis, descending)


@aten("topk")
def topk(call: Call, x: Node, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Node, ...]:
    if not x.shape:
        return build.reshape(x, call.shape), build.full(0, call.shape, DType.I64)
    axis = normal_axis(dim, x.type.rank)
    return tuple(build.cut(part, axis, 0, k) for part in _sorted(x, axis, largest))
