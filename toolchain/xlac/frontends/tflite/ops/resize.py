"""Resizing of images."""

from __future__ import annotations

import numpy as np

from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.quantization import alike
from xlac.frontends.tflite.registry import operator
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops import build
from xlac_sdk.dtypes import DType

SIDE = 1 << 20  # height or width of a result, at most


@operator("RESIZE_BILINEAR", "ResizeBilinearOptions")
def resize_bilinear(call: TFLiteCall) -> Node:
    """Height and width interpolated between their neighbours: of int8 and int16 in integers, of
    uint8 in real numbers that are then rounded.
    """
    same = alike(call.info(0).quantization, call.out().quantization)
    if same and call[0].type.dtype in (DType.I8, DType.I16):
        return _integers(call)
    if same and call[0].type.dtype is DType.U8:
        return _bytes(call)
    return call.give(_resized(call, call.real(0), "linear", "round_prefer_floor"))


def _bytes(call: TFLiteCall) -> Node:
    """Integers of u8 interpolated in f32, in the order of the kernel, whose roundings decide where
    a result lies in the middle of two integers.
    """
    x = build.cast(call[0], DType.F32)
    rows, columns = (
        _places(call, axis, size) for axis, size in zip((1, 2), _sizes(call), strict=True)
    )
    total: Node | None = None
    for column, across in columns:
        for row, down in rows:
            there = build.take(build.take(x, build.constant(row), 1), build.constant(column), 2)
            part = build.mul(there, build.constant(down.reshape(1, -1, 1, 1)))
            part = build.mul(part, build.constant(across.reshape(1, 1, -1, 1)))
            total = part if total is None else build.add(total, part)
    assert total is not None
    return build.cast(build.add(total, 0.5), DType.U8)


def _places(call: TFLiteCall, axis: int, size: int) -> list[tuple[Array, Array]]:
    """The neighbours of each place of an axis, i64[size], and their weights, f32[size]."""
    old, one = call[0].shape[axis], np.float32(1)
    if not isinstance(old, int) or size < 1 or not old:
        call.fail(f"height and width of {call[0].type} must be known, and not 0")
    scale = np.float32(old) / np.float32(size)
    if call.option("align_corners") and size > 1:
        scale = np.float32(old - 1) / np.float32(size - 1)
    at = np.arange(size, dtype=np.float32)
    if call.option("half_pixel_centers"):
        at = (at + np.float32(0.5)) * scale - np.float32(0.5)
    else:
        at = at * scale
    low = np.maximum(np.floor(at), 0).astype(np.int64)
    high = np.clip(np.ceil(at), 0, old - 1).astype(np.int64)
    part = at - low.astype(np.float32)
    return [(np.minimum(low, old - 1), one - part), (high, part)]


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
