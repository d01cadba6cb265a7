"""Pooling over height and width of (batch, height, width, channels)."""

from __future__ import annotations

from xlac.frontends.tflite.call import BOUNDS, TFLiteCall
from xlac.frontends.tflite.ops.convolution import padding, steps
from xlac.frontends.tflite.quantization import held
from xlac.frontends.tflite.registry import operator
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.reduction.window import Window
from xlac_sdk.dtypes import DType

Pads = list[tuple[int, int]]


def _window(call: TFLiteCall, x: Node, combine: str) -> tuple[Node, Pads]:
    """The elements under each window combined, and the padding of height and width."""
    if x.type.rank != 4:
        call.fail(f"x has rank 4, not {x.type}")
    strides = steps(call, "stride_h", "stride_w")
    spans = steps(call, "filter_height", "filter_width")
    pads = padding(call, x.shape[1:3], spans, strides)
    (top, bottom), (left, right) = pads
    op = Window(
        combine,
        None,
        (1, *spans, 1),
        (1, *strides, 1),
        (0, top, left, 0),
        (0, bottom, right, 0),
        (1,) * 4,
        (1,) * 4,
    )
    return Node.of(op, x), pads


def _counts(call: TFLiteCall, x: Node, result: Node, pads: Pads) -> Node:
    """The number of elements of x under each window, to broadcast with the result."""
    if not any(sum(pad) for pad in pads):
        return build.constant(float(call.option("filter_height") * call.option("filter_width")))
    ones = build.full(1.0, (1, *x.shape[1:3], 1), DType.F32)
    return _window(call, ones, "add")[0]


@operator("AVERAGE_POOL_2D", "Pool2DOptions")
def average_pool(call: TFLiteCall) -> Node:
    """The mean under a window; padding does not count. Means of integers are of those that are
    stored, which include the zero point, and round halves away from zero.
    """
    x, info = call[0], call.out()
    if x.type.dtype.is_float:
        total, pads = _window(call, build.compute(x), "add")
        mean = build.div(total, _counts(call, x, total, pads))
        return call.give(call.activated(mean))
    if not _stored(call):
        total, pads = _window(call, build.compute(call.real(0)), "add")
        return call.give(call.activated(build.div(total, _counts(call, x, total, pads))))
    wide = DType.I32 if x.type.dtype.bits < 32 else x.type.dtype
    total, pads = _window(call, build.cast(x, wide), "add")
    mean = build.div(build.cast(total, DType.F32), _counts(call, x, total, pads))
    return held(build.apply1("round_half_away", mean), info, _bounds(call))


def _stored(call: TFLiteCall) -> bool:
    """Whether x and the result are quantized integers of one type, which the kernels take as they
    are stored.
    """
    before, after = call.info(0).quantization, call.out().quantization
    return before is not None and after is not None and call[0].type.dtype is call.out().dtype


def _bounds(call: TFLiteCall) -> tuple[float, float]:
    if call.activation not in BOUNDS:
        call.fail(f"the activation {call.activation} of integers is not supported")
    return BOUNDS[call.activation]


@operator("MAX_POOL_2D", "Pool2DOptions")
def max_pool(call: TFLiteCall) -> Node:
    """The largest element under a window, of integers that which is stored."""
    x = call[0]
    if call.activation == "NONE" and (_stored(call) or x.type.dtype is call.out().dtype):
        return _window(call, x, "max")[0]
    if _stored(call):
        largest = build.cast(_window(call, x, "max")[0], DType.I32)
        return held(largest, call.out(), _bounds(call))
    return call.give(call.activated(_window(call, call.real(0), "max")[0]))


@operator("L2_POOL_2D", "Pool2DOptions")
def l2_pool(call: TFLiteCall) -> Node:
    """The square root of the mean of squares under a window; padding does not count."""
    x = build.compute(call.real(0))
    total, pads = _window(call, build.mul(x, x), "add")
    return call.give(call.activated(build.sqrt(build.div(total, _counts(call, x, total, pads)))))
