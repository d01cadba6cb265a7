"""Transposed convolutions."""

from __future__ import annotations

from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.ops.convolution import padding, steps, summed
from xlac.frontends.tflite.registry import operator
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType


@operator("TRANSPOSE_CONV", "TransposeConvOptions")
def transpose_conv(call: TFLiteCall) -> Node:
    """The size of the result, weight (filters, height, width, channels), x (batch, height, width,
    channels), bias.
    """
    strides = steps(call, "stride_h", "stride_w")
    return _transposed(call, ("NHWC", "OHWI", "NHWC"), "HW", strides)


@operator("CONV_3D_TRANSPOSE", "Conv3DOptions")
def conv_3d_transpose(call: TFLiteCall) -> Node:
    """The size of the result, weight (depth, height, width, filters, channels), x (batch, depth,
    height, width, channels), bias.
    """
    strides = steps(call, "stride_d", "stride_h", "stride_w")
    if steps(call, "dilation_d_factor", "dilation_h_factor", "dilation_w_factor") != (1, 1, 1):
        call.fail("dilations other than 1 are not supported")
    return _transposed(call, ("NDHWC", "DHWOI", "NDHWC"), "DHW", strides)


def _transposed(
    call: TFLiteCall, layout: tuple[str, str, str], spatial: str, strides: tuple[int, ...]
) -> Node:
    """The convolution of x, spread by the strides, with the flipped weight."""
    wanted = call.dims(0)
    swapped = TFLiteCall(
        call.operator,
        (call.inputs[2], call.inputs[1], *call.inputs[3:]),
        (call.values[2], call.values[1], *call.values[3:]),
        call.outputs,
        call.options,
        call.table,
        call.importer,
    )
    x, weight = swapped[0], swapped[1]
    if (
        x.type.rank != len(layout[0])
        or weight.type.rank != len(layout[1])
        or len(wanted) != x.type.rank
    ):
        call.fail(f"x and weight have rank {len(layout[0])}, not {x.type} and {weight.type}")
    size = dict(zip(layout[2], wanted, strict=True))
    taps = [weight.shape[layout[1].index(letter)] for letter in spatial]
    spans = [int(tap) for tap in taps]  # type: ignore[arg-type]
    pads = padding(call, [size[letter] for letter in spatial], spans, strides)
    low, high = [], []
    for letter, span, stride, (before, _) in zip(spatial, spans, strides, pads, strict=True):
        low.append(span - 1 - before)
        given: Dim = x.shape[layout[0].index(letter)]
        more = size[letter] - ((given - 1) * stride + 1) - low[-1] + span - 1
        if not isinstance(more, int):
            call.fail(f"the size {size[letter]} of the result must be a number")
        high.append(more)

    def product(a: Node, b: Node, out: DType) -> Node:
        ones = (1,) * len(spatial)
        axes = [layout[1].index(letter) for letter in spatial]
        flipped = build.apply1("flip", b, axis=axes)
        op = Conv(layout, ones, tuple(low), tuple(high), strides, ones, 1, 1, out)
        return Node.of(op, a, flipped)

    return summed(swapped, product, filters=layout[1].index("O"))
