"""Resize and Upsample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.registry import operator
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError, normal_axis
from xlac.ops import build

MODES = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic"}


@operator("Upsample", since=1)
def upsample(call: OperatorCall) -> Node:
    """Operator sets 7 (scales as an attribute) and 9; replaced by Resize in 10."""
    scales = [float(s) for s in (call.attr("scales") if call.get(1) is None else call.value(1))]
    return _by_scales(call, scales, coordinates="asymmetric", rounding="floor")


@operator("Resize", since=10)
def resize_10(call: OperatorCall) -> Node:
    """Operator set 10: by scales, with asymmetric coordinates.

    The nearest element is found by rounding down, and by rounding up when downsampling, as in ONNX
    Runtime.
    """
    scales = [float(s) for s in call.value(1)]
    finer = _by_scales(
        call, [max(s, 1.0) for s in scales], coordinates="asymmetric", rounding="floor"
    )
    return _by_scales(
        replace(call, inputs=(finer,)),
        [min(s, 1.0) for s in scales],
        coordinates="asymmetric",
        rounding="ceil",
    )


@operator("Resize", since=11)
def resize_11(call: OperatorCall) -> Node:
    """Operator sets 11, 13, 18 (axes, antialias, keep_aspect_ratio_policy) and 19: by scales or
    sizes.
    """
    x = call[0]
    axes = [normal_axis(a, x.type.rank) for a in call.attr("axes", range(x.type.rank))]
    given: dict[str, object] = {
        "coordinates": call.attr("coordinate_transformation_mode", "half_pixel"),
        "rounding": call.attr("nearest_mode", "round_prefer_floor"),
        "cubic_a": call.attr("cubic_coeff_a", -0.75),
        "antialias": bool(call.attr("antialias", 0)),
        "exclude_outside": bool(call.attr("exclude_outside", 0)),
        "extrapolation": call.attr("extrapolation_value", 0.0),
    }
    region: list[float] = []
    if given["coordinates"] == "tf_crop_and_resize":
        region = [float(r) for r in call.value(1)]
    if call.get(3) is None or call[3].shape == (0,):
        scales = [float(s) for s in call.value(2)]
        return _resized(call, axes, [], scales, region, given)
    return _resized(call, axes, *_to_sizes(call, axes), region, given)


def _to_sizes(call: OperatorCall, axes: Sequence[int]) -> tuple[list[Dim], list[float]]:
    """Sizes and the scales that they imply: one scale for all axes if the aspect ratio is kept."""
    x, policy = call[0], call.attr("keep_aspect_ratio_policy", "stretch")
    sizes: list[Dim] = list(call.dims(3))
    if policy == "stretch" or len(sizes) != len(axes):
        return sizes, []
    old = [x.shape[a] for a in axes]
    if not all(isinstance(n, int) and n for n in (*old, *sizes)):
        raise ShapeError(f"{policy} needs known sizes, got {x.type}")
    ratios = [new / n for new, n in zip(sizes, old, strict=True)]  # type: ignore[operator]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [math.floor(scale * n + 0.5) for n in old], [scale] * len(axes)  # type: ignore[operator]


def _by_scales(call: OperatorCall, scales: list[float], **given: object) -> Node:
    return _resized(call, range(call[0].type.rank), [], scales, [], given)


def _resized(
    call: OperatorCall,
    axes: Sequence[int],
    sizes: Sequence[Dim],
    scales: Sequence[float],
    region: Sequence[float],
    given: dict[str, object],
) -> Node:
    """xlac's `resize` over the axes whose size changes."""
    x = call[0]
    count = len(axes)
    if len(sizes or scales) != count or (region and len(region) != 2 * count):
        raise ShapeError(f"{x.type} needs {count} scales or sizes, got {len(sizes or scales)}")
    mode = MODES.get(call.attr("mode", "nearest"))
    if mode is None:
        call.fail(f"mode '{call.attr('mode')}' is not one of {', '.join(MODES)}")

    def changes(n: int) -> bool:
        if region and (region[n], region[count + n]) != (0.0, 1.0):
            return True
        return sizes[n] != x.shape[axes[n]] if sizes else scales[n] != 1.0

    kept = [n for n in range(count) if changes(n)]
    if not kept:
        return x
    wanted = [sizes[n] for n in kept] if sizes else []
    if not all(isinstance(x.shape[axes[n]], int) for n in kept) or not all(
        isinstance(size, int) for size in wanted
    ):
        raise ShapeError(
            f"{call.operator} needs known sizes where it changes them, got {x.type}",
            hint="fix them with --dim",
        )
    op = {
        "size": wanted,
        "scale": [scales[n] for n in kept] if scales else [],
        "mode": mode,
        "axes": [axes[n] for n in kept],
        "region": [region[start + n] for start in (0, count) for n in kept] if region else [],
        **given,
    }
    if mode == "nearest" or x.type.dtype.is_float:
        return build.apply1("resize", x, **op)
    # conversion to an integer saturates
    resized = build.apply1("round", build.apply1("resize", build.floating(x), **op))
    return build.cast(resized, x.type.dtype)


@operator("CenterCropPad", since=18)
def center_crop_pad(call: OperatorCall) -> Node:
    """Operator set 18: crops the centre of each axis, or pads it with zeros on both sides."""
    x = call[0]
    axes = [normal_axis(a, x.type.rank) for a in call.attr("axes", None) or range(x.type.rank)]
    low, high = [0] * x.type.rank, [0] * x.type.rank
    for axis, wanted in zip(axes, call.ints(1) or [], strict=True):
        gap = wanted - x.shape[axis]
        if not isinstance(gap, int):
            call.fail(f"CenterCropPad needs known sizes, got {x.type}")
        low[axis] = int(np.sign(gap)) * (abs(gap) // 2)
        high[axis] = gap - low[axis]
    return build.pad(x, 0, low, high)
