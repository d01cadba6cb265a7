"""DeformConv: a convolution whose taps have data-dependent offsets."""

from __future__ import annotations

from math import prod

import numpy as np

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.ops.nn.geometry import kernel_of, windows
from xlac.frontends.onnx.registry import operator
from xlac.ir.dims import volume
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build
from xlac.ops.tensor.grid import interpolated


@operator("DeformConv", since=19)
def deform_conv(call: OperatorCall) -> Node:
    """Operator sets 19 and 22: every tap of the window has its own offset and optionally a weight
    (the mask).
    """
    x, weight, offset, bias, mask = call[0], call[1], call[2], call.get(3), call.get(4)
    rank = x.type.rank - 2
    if (
        rank < 1
        or not weight.type.rank == offset.type.rank == rank + 2
        or not all(isinstance(n, int) for n in x.shape[1:])
    ):
        raise ShapeError(
            "DeformConv takes images of known size, a weight and offsets of one rank, got "
            f"{x.type}, {weight.type} and {offset.type}"
        )
    kernel = kernel_of(call, weight)
    at = windows(call, x.shape[2:], kernel)
    groups, shared = call.attr("group", 1), call.attr("offset_group", 1)
    batch, channels = x.shape[:2]
    places, taps = offset.shape[2:], prod(kernel)
    count = volume(places)
    if offset.shape[1] != shared * taps * rank or channels % shared:
        raise ShapeError(
            f"{offset.type} does not hold offsets of {taps} taps for {shared} groups", operand=2
        )
    both = batch * shared
    moved = build.reshape(build.compute(offset), (both, taps, rank, *places))
    coordinates = []
    for axis in range(rank):
        tap = np.indices(kernel)[axis].reshape(-1) * at.dilations[axis] - at.low[axis]
        own = build.cut(moved, 2, axis, axis + 1)
        line = build.cast(build.iota(places, axis), own.type.dtype)
        where = build.add(
            build.reshape(own, (both, taps, *places)), build.mul(line, float(at.strides[axis]))
        )
        where = build.add(
            where, build.reshape(build.constant(tap, own.type.dtype), (taps, *[1] * rank))
        )
        coordinates.append(build.reshape(where, (both, taps * count)))
    split = build.reshape(build.compute(x), (both, channels // shared, *x.shape[2:]))
    read = build.reshape(
        interpolated(split, coordinates, "linear", "zeros"),
        (batch, shared, channels // shared, taps, count),
    )
    if mask is not None:
        read = build.mul(read, build.reshape(build.compute(mask), (batch, shared, 1, taps, count)))
    columns = build.reshape(read, (batch, groups, channels // groups * taps, count))
    filters = weight.shape[0]
    wide = build.reshape(build.compute(weight), (groups, filters // groups, weight.shape[1] * taps))
    # (groups, filters / groups, batch, places)
    sums = build.dot(wide, columns, ((2,), (2,)), ((0,), (1,)))
    sums = build.reshape(build.transpose(sums, (2, 0, 1, 3)), (batch, filters, *places))
    if bias is not None:
        sums = build.add(sums, build.along(build.compute(bias), 1, rank + 2, sums.shape))
    return build.cast(sums, x.type.dtype)
