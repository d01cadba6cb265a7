"""Adaptive max pooling, with indices: windows divide an axis as evenly as possible."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlac.frontends.torch.families.nn.max_pooling import returned
from xlac.frontends.torch.families.nn.pooling import known
from xlac.frontends.torch.table import AtenCall, aten
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops import build


def _adaptive(rank: int) -> None:
    @aten(f"adaptive_max_pool{rank}d")
    def builder(call: AtenCall, x: Node, output_size: Sequence[int]) -> tuple[Node, Node]:
        extents, counts = known(x.shape[-rank:]), known(call.shape[-rank:])
        places, inside = windows(extents, counts)
        outer = x.shape[: x.type.rank - rank]
        plane = build.reshape(x, (*outer, math.prod(extents)))
        under = build.take(plane, build.constant(places), len(outer))
        lowest = -math.inf if x.type.dtype.is_float else np.iinfo(x.type.dtype.numpy).min
        kept = build.select(
            build.broadcast_to(build.constant(inside), under.shape),
            under,
            build.like(lowest, under),
        )
        axis = len(outer) + 1
        first = build.apply1("argmax", kept, axis=axis, keepdims=True)
        spread = build.broadcast_to(build.constant(places), under.shape)
        at = build.apply1("take_along_axis", spread, first, axis=axis)
        return build.reshape(build.reduce(kept, "max", axis), call.shape), build.reshape(
            at, call.shape
        )

    @aten(f"adaptive_max_pool{rank}d_backward")
    def backward(call: AtenCall, grad: Node, x: Node, indices: Node) -> Node:
        return returned(call, grad, x, indices, rank)


def windows(extents: Sequence[int], counts: Sequence[int]) -> tuple[Array, Array]:
    """The row-major indices of the elements of each window, with all windows padded to the longest,
    and which of them are valid.
    """
    places, inside = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    for size, count in zip(extents, counts, strict=True):
        start = np.arange(count) * size // count
        stop = -(-(np.arange(count) + 1) * size // count)
        along = start[:, None] + np.arange(max((stop - start).max(initial=0), 0))
        real = along < stop[:, None]
        along = np.minimum(along, size - 1)
        places = (places[:, None, :, None] * size + along[None, :, None, :]).reshape(
            len(places) * count, -1
        )
        inside = (inside[:, None, :, None] & real[None, :, None, :]).reshape(
            len(inside) * count, -1
        )
    return places, inside


for _rank in (2, 3):
    _adaptive(_rank)
