"""The gradient of a depthwise convolution for its weights, as a sum for each tap.

Every tap's is the sum over all places of what it sees times what is asked of the result. The sums
are of the same values, so that a lowering computes all of them as it reads those once.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from xlac.ir.dims import Shape, upper_bound, volume
from xlac.ir.graph import Node, apply
from xlac_sdk.dtypes import DType

if TYPE_CHECKING:
    from xlac.ops.reduction.conv import Conv

TAPS = 49  # of a kernel: sums that are made side by side


def applies(op: Conv, x: Node, kernel: Shape) -> bool:
    """Whether each channel stands alone, all sizes are known, and x is not spread."""
    sizes = (*x.shape, *kernel)
    if not all(isinstance(n, int) for n in sizes) or set(op.lhs_dilation) - {1}:
        return False
    channels = x.shape[op.layout[0].index("C")]
    taps = volume(tuple(n for n, s in zip(kernel, op.layout[1], strict=True) if s in op.spatial))
    alone = op.feature_groups == channels == kernel[op.layout[1].index("O")] != 1
    return alone and bool(op.spatial) and upper_bound(taps) <= TAPS and x.type.dtype is not DType.I8


def of_weights(op: Conv, x: Node, kernel: Shape, ct: Node) -> Node:
    """The cotangent of the kernel from that of the result, in the type that sums are made in."""
    spatial = op.spatial
    data, wanted = f"N{spatial}C", f"{spatial}IO"
    dtype = ct.type.dtype.compute
    seen, asked = (
        _cast(apply("transpose", node, perm=tuple(layout.index(s) for s in data)), dtype)
        for node, layout in ((x, op.layout[0]), (ct, op.layout[2]))
    )
    zero = apply("const", value=np.zeros((), dtype.numpy))
    low, high, none = (0, *op.low, 0), (0, *op.high, 0), (0,) * len(data)
    padded = apply("pad", seen, zero, low=low, high=high, interior=none)
    counts = dict(zip(op.layout[1], kernel, strict=True))
    sums = []
    for place in product(*(range(int(str(counts[s]))) for s in spatial)):
        starts, stops, steps = [0], [padded.shape[0]], [1]
        for axis, tap in enumerate(place):
            first, stride = tap * op.rhs_dilation[axis], op.strides[axis]
            starts.append(first)
            stops.append(first + (asked.shape[axis + 1] - 1) * stride + 1)
            steps.append(stride)
        starts, stops, steps = [*starts, 0], [*stops, padded.shape[-1]], [*steps, 1]
        part = apply("slice", padded, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps))
        total = apply(
            "reduce", apply("mul", part, asked), axes=tuple(range(len(data) - 1)), combine="add"
        )
        sums.append(apply("reshape", total, shape=(1, total.shape[0])))
    shape = tuple(counts[s] for s in wanted)
    gradient = apply("reshape", apply("concat", *sums, axis=0), shape=shape)
    return apply("transpose", gradient, perm=tuple(wanted.index(s) for s in op.layout[1]))


def _cast(node: Node, dtype: DType) -> Node:
    return node if node.type.dtype is dtype else apply("cast", node, dtype=dtype)
