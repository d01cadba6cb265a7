"""Locally connected layers of Keras 2: convolutions with a kernel of its own at each position."""

from __future__ import annotations

from math import prod

import numpy as np

from xlac.frontends.keras.call import LayerCall
from xlac.frontends.keras.layers.reshaping import spatial
from xlac.frontends.keras.registry import layer
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.checks import check_table


def _connected(call: LayerCall, rank: int) -> Node:
    if call.integer("implementation", 1) != 1:
        call.unsupported("kernels of implementations 2 and 3 are not supported")
    if call.choice("padding", ("valid",), "valid") and not call.channels_last:
        call.unsupported("channels_first is not supported")
    x, filters = call.floats(call.x), call.integer("filters")
    kernel, strides = call.integers("kernel_size", rank), call.integers("strides", rank, 1)
    batch, *sizes, channels = x.shape
    counts, area = [], prod(kernel)
    for axis in spatial(call, rank):
        size, width, step = sizes[axis - 1], kernel[axis - 1], strides[axis - 1]
        if not isinstance(size, int) or not isinstance(channels, int) or size < width:
            call.fail(
                f"the sizes and channels of {x.type} must be known, and at least the kernel's"
            )
        counts.append((size - width) // step + 1)
        check_table(call.layer.kind, float(counts[-1]) * width, x.type)
        starts = np.arange(counts[-1])[:, None] * step
        place = 2 * axis - 1  # each axis before is two: positions and what is under the kernel
        x = build.take(x, build.constant(starts + np.arange(width)), place)
    order = (0, *range(1, 2 * rank, 2), *range(2, 2 * rank + 1, 2), 2 * rank + 1)
    total = prod(counts)
    seen = build.reshape(build.transpose(x, order), (batch, total, area * channels))
    weights = call.weight("kernel", (total, area * channels, filters))
    y = build.apply1("einsum", seen, weights, equation="bpk,pkf->bpf")
    y = build.reshape(y, (batch, *counts, filters))
    return call.activated(call.biased(y, (*counts, filters)))


@layer("LocallyConnected1D")
def locally_connected1d(call: LayerCall) -> Node:
    """Along time."""
    return _connected(call, 1)


@layer("LocallyConnected2D")
def locally_connected2d(call: LayerCall) -> Node:
    """Over height and width."""
    return _connected(call, 2)
