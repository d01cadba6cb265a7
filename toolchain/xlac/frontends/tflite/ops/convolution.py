"""Convolutions, of floats and of quantized integers, whose sums are exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from xlac.frontends.tflite.call import BOUNDS, TFLiteCall
from xlac.frontends.tflite.file.tensors import elements
from xlac.frontends.tflite.quantization import centred, dequantized, scaled
from xlac.frontends.tflite.registry import operator
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType

Product = Callable[[Node, Node, DType], Node]
"""A sum of products of two tensors, in a type."""

MOST = 1 << 16  # a stride or dilation
IN_F32 = {"FULLY_CONNECTED", "BATCH_MATMUL"}
"""Operators whose kernels multiply two single scales in f32, as all kernels of u8 do."""
ROUNDED_ONCE = {"FULLY_CONNECTED"}
"""Operators whose kernels round once where they bring sums to the result's scale."""


def steps(call: TFLiteCall, *names: str) -> tuple[int, ...]:
    """Options that are strides or dilations, each at least 1."""
    sizes = tuple(call.option(name) for name in names)
    if not all(1 <= step <= MOST for step in sizes):
        call.fail(f"{', '.join(names)} are {list(sizes)}: each must be from 1 to {MOST}")
    return sizes


def padding(
    call: TFLiteCall, sizes: Sequence[Dim], spans: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    """The padding of each spatial axis: none for VALID; for SAME as much as gives size / stride
    results, rounded up, with the odd element at the end. `spans` are the extents of the windows.
    """
    if call.chosen("padding", "Padding") == "VALID":
        if any(isinstance(n, int) and n < s for n, s in zip(sizes, spans, strict=True)):
            call.fail(f"a window of {list(spans)} is larger than its input of {list(sizes)}")
        return [(0, 0)] * len(sizes)
    pads = []
    for size, span, stride in zip(sizes, spans, strides, strict=True):
        if isinstance(size, int):
            total = max(0, (-(-size // stride) - 1) * stride + span - size)
        elif stride == 1:
            total = span - 1
        else:
            raise ShapeError(
                f"SAME padding with a stride of {stride} depends on the size {size}",
                hint="fix it with --dim",
            )
        pads.append((total // 2, total - total // 2))
    return pads


@operator("CONV_2D", "Conv2DOptions")
def conv_2d(call: TFLiteCall) -> Node:
    """x (batch, height, width, channels), weight (filters, height, width, channels of a group)."""
    weight = call[1]
    x = call[0]
    if x.type.rank != 4 or weight.type.rank != 4:
        call.fail(f"x and weight have rank 4, not {x.type} and {weight.type}")
    channels, each = x.shape[3], weight.shape[3]
    if not isinstance(channels, int) or not isinstance(each, int) or not each or channels % each:
        call.fail(f"{channels} channels do not divide into groups of {each}")
    strides = steps(call, "stride_h", "stride_w")
    dilations = steps(call, "dilation_h_factor", "dilation_w_factor")
    return convolved(call, ("NHWC", "OHWI", "NHWC"), "HW", strides, dilations, channels // each)


@operator("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions")
def depthwise_conv_2d(call: TFLiteCall) -> Node:
    """x (batch, height, width, channels), weight (1, height, width, channels * multiplier)."""
    x, weight = call[0], call[1]
    if x.type.rank != 4 or weight.type.rank != 4 or not isinstance(x.shape[3], int):
        call.fail(f"x and weight have rank 4, not {x.type} and {weight.type}")
    strides = steps(call, "stride_h", "stride_w")
    dilations = steps(call, "dilation_h_factor", "dilation_w_factor")
    return convolved(call, ("NHWC", "IHWO", "NHWC"), "HW", strides, dilations, x.shape[3])


@operator("CONV_3D", "Conv3DOptions")
def conv_3d(call: TFLiteCall) -> Node:
    """x (batch, depth, height, width, channels), weight (depth, height, width, channels,
    filters).
    """
    strides = steps(call, "stride_d", "stride_h", "stride_w")
    dilations = steps(call, "dilation_d_factor", "dilation_h_factor", "dilation_w_factor")
    return convolved(call, ("NDHWC", "DHWIO", "NDHWC"), "DHW", strides, dilations, 1)


def convolved(
    call: TFLiteCall,
    layout: tuple[str, str, str],
    spatial: str,
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    groups: int,
) -> Node:
    """A convolution with bias and activation, in the type of the output."""
    x, weight = call[0], call[1]
    if x.type.rank != len(layout[0]) or weight.type.rank != len(layout[1]):
        call.fail(f"x and weight have rank {len(layout[0])}, not {x.type} and {weight.type}")
    size = dict(zip(layout[0], x.shape, strict=True))
    taps = dict(zip(layout[1], weight.shape, strict=True))
    spans = [(int(taps[a]) - 1) * d + 1 for a, d in zip(spatial, dilations, strict=True)]  # type: ignore[arg-type]
    pads = padding(call, [size[a] for a in spatial], spans, strides)
    low, high = (tuple(pad[end] for pad in pads) for end in (0, 1))

    def product(a: Node, b: Node, out: DType) -> Node:
        ones = (1,) * len(spatial)
        return Node.of(Conv(layout, strides, low, high, ones, dilations, groups, 1, out), a, b)

    return summed(call, product, filters=layout[1].index("O"))


def summed(call: TFLiteCall, product: Product, filters: int, bias: int = 2) -> Node:
    """The `product` of inputs 0 and 1, plus input `bias`, activated, in the type of the output.

    Where both are quantized, sums and bias are integers: exact in i32, or in i64 for 16-bit
    activations. `filters` is the weight's axis of output channels, which are last in the product.
    """
    x, weight = call[0], call[1]
    left, right = call.info(0).quantization, call.info(1).quantization
    if x.type.dtype.is_float:
        other = dequantized(weight, right)
        sums = product(x, build.cast(other, x.type.dtype), x.type.dtype.compute)
        if call.get(bias) is not None:
            sums = build.add(sums, build.compute(call.real(bias)))
        return call.give(call.activated(sums))
    out = call.out().quantization
    if left is None or right is None or not left.single or (out is not None and not out.single):
        call.fail(f"{x.type} and {weight.type} need scales, one for the whole of x and the result")
    if not right.single and right.axis != filters:
        call.fail(f"the weight has scales along axis {right.axis}, not {filters}")
    scales = left.scales.astype(np.float64) * right.scales.astype(np.float64)
    wide = DType.I32 if x.type.dtype.bits == 8 else DType.I64
    a, b = centred(x, left), centred(weight, right)
    if wide is DType.I64:
        a, b = build.cast(a, wide), build.cast(b, wide)
    sums = product(a, b, wide)
    if call.get(bias) is not None:
        sums = build.add(sums, build.cast(call[bias], wide))
    if out is None or call.activation not in BOUNDS:
        factor = build.constant(scales.astype(np.float32))
        return call.give(call.activated(build.mul(build.cast(sums, DType.F32), factor)))
    if right.single and (call.operator in IN_F32 or x.type.dtype is DType.U8):
        scales = (left.scales * right.scales).astype(np.float64)
    factors = scales / float(out.scales[0])
    return scaled(
        sums,
        factors.reshape(factors.shape if factors.size > 1 else ()),
        call.out(),
        BOUNDS[call.activation],
        call.operator in ROUNDED_ONCE,
        _most(call, sums, filters, bias),
    )


def _most(call: TFLiteCall, sums: Node, filters: int, bias: int) -> int:
    """A bound of sums of products of bytes, with the bias."""
    limit, weight = 1 << 31, call[1].shape
    if sums.type.dtype is not DType.I32 or not all(isinstance(size, int) for size in weight):
        return limit
    sizes = [int(size) for size in weight]  # type: ignore[arg-type]
    terms = max(sizes[-2:]) if filters < 0 else prod(sizes) // max(1, sizes[filters])
    most = terms * 255 * 255
    if call.get(bias) is not None:
        info = call.info(bias)
        if info.data is None:
            return limit
        most += int(np.abs(elements(info)[1]().astype(np.int64)).max(initial=0))
    return min(most, limit)
