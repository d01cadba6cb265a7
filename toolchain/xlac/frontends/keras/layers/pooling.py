"""Pooling over windows, over all positions, and to a given size."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from xlac.frontends.keras.call import LayerCall
from xlac.frontends.keras.layers.reshaping import spatial
from xlac.frontends.keras.padding import same
from xlac.frontends.keras.registry import layer
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.checks import check_table
from xlac.ops.nn.adaptive_pooling import window_edges
from xlac.ops.reduction.window import Window


def _spread(axes: range, rank: int, values: tuple[int, ...], rest: int) -> tuple[int, ...]:
    """Given values at some axes, one number at all others."""
    held = dict(zip(axes, values, strict=True))
    return tuple(held.get(axis, rest) for axis in range(rank))


def _pooled(call: LayerCall, rank: int, combine: str) -> Node:
    x = call.x
    axes = spatial(call, rank, call.channels_last)
    spans = call.integers("pool_size", rank, 2)
    strides = call.integers("strides", rank) if call.get("strides") is not None else spans
    mode = call.choice("padding", ("valid", "same"), "valid")
    sizes = [x.shape[axis] for axis in axes]
    pads = same(sizes, spans, strides) if mode == "same" else [(0, 0)] * rank

    def window(value: Node) -> Node:
        whole = len(value.shape)
        one = (1,) * whole
        return Node.of(
            Window(
                combine,
                None,
                _spread(axes, whole, spans, 1),
                _spread(axes, whole, strides, 1),
                _spread(axes, whole, tuple(low for low, _ in pads), 0),
                _spread(axes, whole, tuple(high for _, high in pads), 0),
                one,
                one,
            ),
            value,
        )

    if combine == "max":
        return window(x)
    total = window(build.compute(x))
    count: Node | float = float(prod(spans))
    if any(sum(pad) for pad in pads):
        ones = tuple(size if axis in axes else 1 for axis, size in enumerate(x.shape))
        count = window(build.full(1.0, ones, total.type.dtype))
    return build.cast(build.div(total, count), x.type.dtype)


def _global(call: LayerCall, rank: int, operation: str) -> Node:
    axes = spatial(call, rank, call.channels_last)
    if call.mask is not None and (rank, operation) == (1, "mean"):
        return _counted_mean(call, axes[0], call.mask)
    return build.apply1(operation, call.x, axis=list(axes), keepdims=call.flag("keepdims"))


def _counted_mean(call: LayerCall, axis: int, mask: Node) -> Node:
    """The mean of the steps that count; not a number where none does."""
    x, keepdims = call.x, call.flag("keepdims")
    if mask.type.rank != 2:
        call.fail(f"its mask is (batch, time), got {mask.type}")
    batch, time = mask.shape
    mask = build.reshape(mask, (batch, time, 1) if axis == 1 else (batch, 1, time))
    kept = build.select(mask, x, build.like(0.0, x))
    sums = [
        build.apply1("sum", part, axis=[axis], keepdims=keepdims)
        for part in (kept, build.cast(mask, x.type.dtype))
    ]
    return build.div(sums[0], sums[1])


def _adaptive(call: LayerCall, rank: int, combine: str) -> Node:
    """Windows that divide each spatial axis as evenly as whole elements allow."""
    last = call.channels_last
    axes = spatial(call, rank, last)
    counts = call.integers("output_size", rank)
    open_sizes = [call.x.shape[axis] for axis in axes if not isinstance(call.x.shape[axis], int)]
    if open_sizes:
        call.fail(f"the spatial sizes of {call.x.type} must be known", f"--dim {open_sizes[0]}=…")
    if combine == "max":
        x = call.x
        for axis, count in zip(axes, counts, strict=True):
            x = _largest(x, axis, count)
        return x
    x = build.transpose(call.x, (0, rank + 1, *range(1, rank + 1))) if last else call.x
    y = _means(x, counts)
    return build.transpose(y, (0, *range(2, rank + 2), 1)) if last else y


def _largest(x: Node, axis: int, count: int) -> Node:
    """The largest elements of `count` windows along an axis, which overlap by one where they
    divide it unevenly.
    """
    size = x.shape[axis]
    assert isinstance(size, int)
    if size % count == 0:
        shape = (*x.shape[:axis], count, size // count, *x.shape[axis + 1 :])
        return build.reduce(build.reshape(x, shape), "max", axis + 1)
    check_table("adaptive pooling", float(count) * (size // count + 2), x.type)
    first, last = window_edges(size, count)
    places = np.minimum(first[:, None] + np.arange((last - first).max()), last[:, None] - 1)
    return build.reduce(build.take(x, build.constant(places), axis), "max", axis + 1)


def _means(x: Node, counts: Sequence[int]) -> Node:
    """The means of `counts` windows along the axes after batch and channels."""
    rank = len(counts)
    if rank < 3:
        return build.apply1(f"adaptive_avg_pool{rank}d", x, size=list(counts))
    batch, channels, depth, *plane = x.shape
    y = build.reshape(x, (batch, channels * depth, *plane))
    y = build.apply1("adaptive_avg_pool2d", y, size=list(counts[1:]))
    area = counts[1] * counts[2]
    y = build.reshape(y, (batch, channels, depth, area))
    y = build.apply1("adaptive_avg_pool2d", y, size=[counts[0], area])
    return build.reshape(y, (batch, channels, *counts))


for _rank in (1, 2, 3):
    for _name, _combine, _reduction in (("Max", "max", "reduce_max"), ("Average", "add", "mean")):

        @layer(f"{_name}Pooling{_rank}D")
        def windows(call: LayerCall, rank: int = _rank, combine: str = _combine) -> Node:
            """The largest element under a window, or the mean of those that are not padding."""
            return _pooled(call, rank, combine)

        @layer(f"Global{_name}Pooling{_rank}D")
        def everything(call: LayerCall, rank: int = _rank, operation: str = _reduction) -> Node:
            """The largest element of a channel, or its mean."""
            return _global(call, rank, operation)

        @layer(f"Adaptive{_name}Pooling{_rank}D")
        def adaptive(call: LayerCall, rank: int = _rank, combine: str = _combine) -> Node:
            """As many windows as wanted along each axis."""
            return _adaptive(call, rank, combine)
