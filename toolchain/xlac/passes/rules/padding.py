"""Merges padding into the windows and convolutions that read it; slices at constant positions
become plain ones.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from xlac.ir.graph import Node
from xlac.ops import numeric
from xlac.ops.reduction.conv import Conv
from xlac.ops.reduction.window import Window
from xlac.ops.tensor.dynamic import DimSize
from xlac.ops.tensor.dynamic_slice import DynSlice
from xlac.ops.tensor.extend import Pad
from xlac.ops.tensor.leaf import Const
from xlac.ops.tensor.view import Slice
from xlac.passes.rewrite.rule import Parameter, Site, constant, rule
from xlac.passes.rules.parts import pad
from xlac.passes.rules.views import integers
from xlac_sdk.dtypes import DType


def _conv(p: Parameter) -> Node:
    ones, zeros = (1, 1), (0, 0)
    op = Conv(("NCHW", "OIHW", "NCHW"), ones, zeros, (0, 1), ones, ones)
    return Node.of(op, pad(p(1, 2, 4, 4), (0, 0, 1, 2), (0, 0, 1, 0)), p(3, 2, 3, 3))


@rule(Conv, examples=[_conv])
def pad_in_conv(node: Node, site: Site) -> Node | None:
    """Merges zero padding into a convolution."""
    assert isinstance(node.op, Conv)
    op, (x, kernel) = node.op, node.inputs
    if not isinstance(x.op, Pad) or any(x.op.interior) or set(op.lhs_dilation) != {1}:
        return None
    low, high, value = integers(x.op.low), integers(x.op.high), constant(x.inputs[1])
    if (
        low is None
        or high is None
        or value is None
        or value != 0
        or min((*low, *high, *op.low, *op.high), default=0) < 0
    ):
        return None
    if any(low[op.layout[0].index(c)] or high[op.layout[0].index(c)] for c in "NC"):
        return None
    places = [op.layout[0].index(c) for c in op.spatial]
    before = tuple(a + low[place] for a, place in zip(op.low, places, strict=True))
    behind = tuple(a + high[place] for a, place in zip(op.high, places, strict=True))
    return site.make(replace(op, low=before, high=behind), x.inputs[0], kernel)


def _window(p: Parameter, combine: str, value: float) -> Node:
    ones, zeros = (1, 1), (0, 0)
    return Node.of(
        Window(combine, None, (2, 3), ones, zeros, zeros, ones, ones),
        pad(p(3, 5), (1, 0), (0, 2), value),
    )


@rule(Window, examples=[lambda p: _window(p, "max", -np.inf), lambda p: _window(p, "add", 0.0)])
def pad_in_window(node: Node, site: Site) -> Node | None:
    """Merges padding with the identity of its combination into a window."""
    assert isinstance(node.op, Window)
    op, x = node.op, node.inputs[0]
    if (
        op.combine == "body"
        or not isinstance(x.op, Pad)
        or any(x.op.interior)
        or set(op.base_dilation) - {1}
    ):
        return None
    low, high, value = integers(x.op.low), integers(x.op.high), constant(x.inputs[1])
    if (
        low is None
        or high is None
        or value is None
        or min((*low, *high, *op.low, *op.high), default=0) < 0
    ):
        return None
    if value != np.asarray(numeric.identity(op.combine, node.type.dtype)).astype(value.dtype):
        return None
    before = tuple(a + b for a, b in zip(op.low, low, strict=True))
    behind = tuple(a + b for a, b in zip(op.high, high, strict=True))
    return site.make(replace(op, low=before, high=behind), x.inputs[0])


def _far(p: Parameter, combine: str) -> Node:
    op = Window(combine, None, (4, 40), (2, 3), (3, 20), (1, 60), (1, 1), (1, 2))
    return Node.of(op, p(3, 5))


@rule(Window, examples=[lambda p: _far(p, "add"), lambda p: _far(p, "max")])
def clip_window(node: Node, site: Site) -> Node | None:
    """Drops the places of a window that see nothing but padding wherever it moves to, which are the
    first and the last ones of each axis: a mean over 1280 by 1280 places of an image of 7 by 7, as
    `ceil_mode` allows it, takes 49 of them.
    """
    assert isinstance(node.op, Window)
    op, x = node.op, node.inputs[0]
    if op.combine == "body":
        return None
    sizes, counts = integers(x.shape), integers(node.shape)
    if sizes is None or counts is None or 0 in (*sizes, *counts):
        return None
    window, low, high = list(op.window), list(op.low), list(op.high)
    for axis, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        gap, reach = op.window_dilation[axis], (count - 1) * op.strides[axis]
        spread = (size - 1) * op.base_dilation[axis] + 1
        first = max(0, -(-(low[axis] - reach) // gap))
        last = min(window[axis] - 1, (spread - 1 + low[axis]) // gap)
        if first > last:
            return None  # only padding is seen
        window[axis] = last - first + 1
        low[axis] -= first * gap
        if window[axis] < op.window[axis]:
            high[axis] = reach + (window[axis] - 1) * gap + 1 - spread - low[axis]
    if tuple(window) == op.window:
        return None
    clipped = replace(op, window=tuple(window), low=tuple(low), high=tuple(high))
    return site.make(clipped, x)


def _at(value: int) -> Node:
    return Node.of(Const(np.array(value, np.int32)))


@rule(
    DynSlice,
    examples=[
        lambda p: Node.of(DynSlice((2, 3)), p(4, 5), _at(1), _at(2)),
        lambda p: Node.of(DynSlice((2, 3)), p(4, 5), _at(-7), _at(99)),
    ],
)
def slice_at_constants(node: Node, site: Site) -> Node | None:
    """A slice with constant starts becomes a plain one; starts are clamped so that it lies
    inside.
    """
    assert isinstance(node.op, DynSlice)
    x, *given = node.inputs
    shape, sizes = integers(x.shape), integers(node.op.sizes)
    values = [value for i in given if (value := constant(i)) is not None]
    if shape is None or sizes is None or len(values) < len(given):
        return None
    starts = tuple(max(0, min(int(v), n - k)) for v, n, k in zip(values, shape, sizes, strict=True))
    stops = tuple(a + k for a, k in zip(starts, sizes, strict=True))
    return site.make(Slice(starts, stops, (1,) * len(starts)), x)


@rule(DimSize, examples=[lambda p: Node.of(DimSize(1), p(4, 5, dtype=DType.F16))])
def known_size(node: Node, site: Site) -> Node | None:
    """The size of an axis, where it is a number."""
    assert isinstance(node.op, DimSize)
    size = node.inputs[0].shape[node.op.axis]
    return site.make(Const(np.array(size, np.int32))) if isinstance(size, int) else None


PADDING = (pad_in_conv, pad_in_window, clip_window, slice_at_constants, known_size)
