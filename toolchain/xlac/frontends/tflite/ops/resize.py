"""Resizing of images."""

from __future__ import annotations

import numpy as np

from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.quantization import alike
from xlac.frontends.tflite.registry import operator
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType

SIDE = 1 << 20  # height or width of a result, at most


@operator("RESIZE_BILINEAR", "ResizeBilinearOptions")
def resize_bilinear(call: TFLiteCall) -> Node:
    """Height and width interpolated between their neighbours."""
    same = alike(call.info(0).quantization, call.out().quantization)
    if same and call[0].type.dtype in (DType.I8, DType.U8, DType.I16):
        return _integers(call)
    return call.give(_resized(call, call.real(0), "linear", "round_prefer_floor"))


ONE = 1 << 10  # integer weights have 10 fractional bits


def _integers(call: TFLiteCall) -> Node:
    """Integers interpolated with weights of 10 bits; the sum rounds halves away from zero."""
    # two weights add 20 bits
    x = build.cast(call[0], DType.I64 if call[0].type.dtype is DType.I16 else DType.I32)
    sizes = _sizes(call)
    for axis, size in zip((1, 2), sizes, strict=True):
        old = x.shape[axis]
        if not isinstance(old, int) or size < 1 or not old:
            call.fail(f"height and width of {x.type} must be known, and not 0")
        step = (ONE * old + size // 2) // size
        if call.option("align_corners") and size > 1:
            step = (ONE * (old - 1) + (size - 1) // 2) // (size - 1)
        at = np.arange(size, dtype=np.int64) * step
        if call.option("half_pixel_centers"):
            at += step // 2 - ONE // 2
        low = np.clip(at // ONE, 0, old - 1)
        high = np.clip(-(-at // ONE), 0, old - 1)
        weight = np.where(at < 0, 0, at - ONE * low)
        shape = [-1 if a == axis else 1 for a in range(4)]
        near, far = (build.take(x, build.constant(side), axis) for side in (low, high))
        parts = [
            build.mul(part, build.constant(w.reshape(shape), x.type.dtype))
            for part, w in ((near, ONE - weight), (far, weight))
        ]
        x = build.add(*parts)
    half = build.select(build.compare(x, "lt", 0), -(ONE * ONE // 2), ONE * ONE // 2)
    return build.cast(build.div(build.add(x, half), ONE * ONE), call.dtype())


@operator("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions")
def resize_nearest(call: TFLiteCall) -> Node:
    """Height and width by their nearest neighbours."""
    rounding = "round_prefer_ceil" if call.option("align_corners") else "floor"
    return _resized(call, call[0], "nearest", rounding)


def _sizes(call: TFLiteCall) -> tuple[int, ...]:
    """The height and width asked for. Raises ShapeError if they are too many pixels to index."""
    sizes = tuple(call.ints(1))
    if len(sizes) != 2 or max(sizes) > SIDE:
        call.fail(f"height and width are two sizes of at most {SIDE:,}: got {list(sizes)}")
    return sizes


def _resized(call: TFLiteCall, x: Node, mode: str, rounding: str) -> Node:
    height, width = _sizes(call)
    if x.type.rank != 4 or not all(isinstance(size, int) for size in x.shape[1:3]):
        call.fail(f"x has rank 4, and its height and width are known: got {x.type}")
    if call.option("align_corners"):
        coordinates = "align_corners"
    elif not call.option("half_pixel_centers"):
        coordinates = "asymmetric"
    else:
        coordinates = "half_pixel"
        if mode == "nearest":  # floor((n + 0.5) * scale)
            rounding = "round_prefer_ceil"
    return build.apply1(
        "resize",
        x,
        size=(height, width),
        axes=(1, 2),
        mode=mode,
        coordinates=coordinates,
        rounding=rounding,
    )
