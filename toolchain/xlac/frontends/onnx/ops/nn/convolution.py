"""Convolutions of floats: Conv, ConvTranspose, and Col2Im."""

from __future__ import annotations

from itertools import product
from math import prod

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.ops.nn.geometry import Windows, kernel_of, listed, windows
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType

SPATIAL = "DHW"


def letters(rank: int) -> str:
    """A letter for each spatial axis: H, W, D up to three axes, digits beyond."""
    return SPATIAL[-rank:] if 0 < rank <= 3 else "".join(str(n) for n in range(rank))


def convolved(x: Node, weight: Node, at: Windows, groups: int, out: DType | None = None) -> Node:
    """A convolution of (batch, channels, …) with (filters, channels / groups, …)."""
    axes = letters(len(at.kernel))
    op = Conv(
        (f"NC{axes}", f"OI{axes}", f"NC{axes}"),
        at.strides,
        at.low,
        at.high,
        (1,) * len(axes),
        at.dilations,
        groups,
        1,
        out,
    )
    return Node.of(op, x, weight)


@operator("Conv", since=1)
def conv(call: OperatorCall) -> Node:
    """Operator sets 1, 11 and 22."""
    x, weight, bias = call[0], call[1], call.get(2)
    return convolution(call, x, weight, bias)


def convolution(call: OperatorCall, x: Node, weight: Node, bias: Node | None) -> Node:
    """A convolution with the attributes of Conv, plus a bias for each filter."""
    rank = x.type.rank - 2
    if weight.type.rank != rank + 2:
        raise ShapeError(
            f"a weight for {x.type} has its rank, not that of {weight.type}", operand=1
        )
    at = windows(call, x.shape[2:], kernel_of(call, weight))
    groups = call.attr("group", 1)
    learned = [weight] if bias is None else [weight, bias]
    if 1 <= rank <= 3:
        return build.apply1(
            f"conv{rank}d",
            x,
            *learned,
            filters=weight.shape[0],
            kernel=at.kernel,
            stride=at.strides,
            pad=at.pads,
            groups=groups,
            dilation=at.dilations,
            bias=bias is not None,
        )
    sums = convolved(x, weight, at, groups, x.type.dtype.compute)
    if bias is not None:
        sums = build.add(sums, build.along(build.compute(bias), 1, rank + 2, sums.shape))
    return build.cast(sums, x.type.dtype)


# ---- transposed ------------------------------------------------------------------------------


@operator("ConvTranspose", since=1)
def conv_transpose(call: OperatorCall) -> Node:
    """Operator sets 1, 11 and 22. `output_shape` and auto_pad SAME fix the output's size, from
    which the padding is computed.
    """
    x, weight, bias = call[0], call[1], call.get(2)
    rank = x.type.rank - 2
    if weight.type.rank != rank + 2 or not 1 <= rank <= 3:
        raise ShapeError(
            f"ConvTranspose takes 1 to 3 spatial axes and a weight of x's rank, got {x.type} and "
            f"{weight.type}"
        )
    kernel, groups = kernel_of(call, weight), call.attr("group", 1)
    strides, dilations = listed(call, "strides", rank, 1, 1), listed(call, "dilations", rank, 1, 1)
    extra = list(listed(call, "output_padding", rank, 0, 0))
    auto, wanted = call.attr("auto_pad", "NOTSET"), call.attr("output_shape", None)
    if wanted is not None or auto.startswith("SAME"):
        pads = []
        sizes = (
            list(wanted)[-rank:]
            if wanted
            else [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
        )
        for axis, (n, size) in enumerate(zip(x.shape[2:], sizes, strict=True)):
            total = (
                (n - 1) * strides[axis]
                + extra[axis]
                + (kernel[axis] - 1) * dilations[axis]
                + 1
                - size
            )
            if not isinstance(total, int):
                call.fail(f"the padding along axis {axis + 2} depends on the symbolic size {n}")
            half = max(0, total) // 2
            pads.append(
                (half, max(0, total) - half)
                if auto == "SAME_UPPER"
                else (max(0, total) - half, half)
            )
            extra[axis] += max(0, -total)
    else:
        flat = (0,) * (2 * rank) if auto == "VALID" else listed(call, "pads", 2 * rank, 0, 0)
        pads = list(zip(flat[:rank], flat[rank:], strict=True))
    learned = [weight] if bias is None else [weight, bias]
    filters = weight.shape[1] * groups
    return build.apply1(
        f"conv_transpose{rank}d",
        x,
        *learned,
        filters=filters,
        kernel=kernel,
        stride=strides,
        pad=tuple(pads),
        groups=groups,
        dilation=dilations,
        bias=bias is not None,
        output_padding=tuple(extra),
    )


@operator("Col2Im", since=18)
def col2im(call: OperatorCall) -> Node:
    """Operator set 18: (batch, channels * block, positions) to images; overlapping elements are
    added.
    """
    x = call[0]
    image, block = (tuple(call.ints(n) or ()) for n in (1, 2))
    rank = len(image)
    strides, dilations = listed(call, "strides", rank, 1, 1), listed(call, "dilations", rank, 1, 1)
    flat = listed(call, "pads", 2 * rank, 0, 0)
    pads = list(zip(flat[:rank], flat[rank:], strict=True))
    places = [
        (n + sum(p) - (k - 1) * d - 1) // s + 1
        for n, p, k, d, s in zip(image, pads, block, dilations, strides, strict=True)
    ]
    if x.type.rank != 3 or len(block) != rank or x.shape[2] != prod(places):
        raise ShapeError(f"{x.type} does not hold the columns of {prod(places)} places")
    columns = build.reshape(x, (x.shape[0], -1, *block, *places))
    total: Node | None = None
    for position in product(*map(range, block)):
        starts = (0, 0, *position, *[0] * rank)
        stops = (*columns.shape[:2], *(p + 1 for p in position), *places)
        part = build.reshape(build.slice_(columns, starts, stops), (*columns.shape[:2], *places))
        low = [p * d - a for p, d, (a, _) in zip(position, dilations, pads, strict=True)]
        high = [
            n - first - (m - 1) * s - 1
            for n, first, m, s in zip(image, low, places, strides, strict=True)
        ]
        placed = build.pad(part, 0, (0, 0, *low), (0, 0, *high), (0, 0, *(s - 1 for s in strides)))
        total = placed if total is None else build.add(total, placed)
    if total is None:
        raise ShapeError(f"a block of shape {list(block)} has no elements")
    return total
