"""Preprocessing of numbers and images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlac.frontends.keras.call import LayerCall
from xlac.frontends.keras.registry import layer
from xlac.ir.graph import Node
from xlac.ops import build

RANDOM = (
    "AugMix", "CutMix", "MixUp", "RandAugment", "RandomBrightness", "RandomColorDegeneration",
    "RandomColorJitter", "RandomContrast", "RandomCrop", "RandomElasticTransform", "RandomErasing",
    "RandomFlip", "RandomGaussianBlur", "RandomGrayscale", "RandomHue", "RandomInvert",
    "RandomPerspective", "RandomPosterization", "RandomRotation", "RandomSaturation",
    "RandomSharpness", "RandomShear", "RandomTranslation", "RandomZoom", "Equalization",
    "Solarization",
)  # fmt: skip
"""Augmentations, which change images in training alone."""


@layer(*RANDOM)
def augmentation(call: LayerCall) -> Node:
    """x itself, as floats."""
    return call.floats(call.x)


@layer("Rescaling")
def rescaling(call: LayerCall) -> Node:
    """x times a scale plus an offset: numbers, or one for each channel."""
    parts = []
    for name, default in (("scale", 1.0), ("offset", 0.0)):
        value = call.get(name, default)
        listing = value if isinstance(value, list) else None
        parts.append(
            build.constant(np.asarray(listing, np.float32), call.dtype)
            if listing
            else call.number(name, default)
        )
    return build.add(build.mul(call.floats(call.x), parts[0]), parts[1])


@layer("Normalization")
def normalization(call: LayerCall) -> Node:
    """(x - mean) / standard deviation, which were given to the layer or adapted from data."""
    x = call.floats(call.x)
    axes = call.get("axis", -1)
    listing = [] if axes is None else axes if isinstance(axes, list) else [axes]
    kept = sorted(axis % x.type.rank for axis in listing)
    shape = [x.shape[axis] if axis in kept else 1 for axis in range(x.type.rank)]
    sides = []
    for name in ("mean", "variance"):
        given = call.get(name)
        if given is None:
            side = call.weight(name, [x.shape[axis] for axis in kept])
        else:
            value = given.get("config", {}).get("value") if isinstance(given, dict) else given
            side = build.constant(np.asarray(value, np.float32).reshape(-1), call.dtype)
        sides.append(side if side.shape == (1,) else build.reshape(side, shape))
    mean, deviation = sides[0], build.maximum(build.sqrt(sides[1]), 1e-7)
    if call.flag("invert"):
        return build.add(mean, build.mul(x, deviation))
    return build.div(build.sub(x, mean), deviation)


@layer("Resizing")
def resizing(call: LayerCall) -> Node:
    """Height and width as wanted; what is beyond the wanted ratio of sides is cut off, or filled
    up, if that is to be kept.
    """
    mode = call.choice("interpolation", ("bilinear", "nearest"), "bilinear")
    x = call.floats(call.x)
    axes = sides(call, x)
    size = (call.integer("height"), call.integer("width"))
    if call.flag("crop_to_aspect_ratio"):
        x = _cropped(x, axes, _fitting(call, x, axes, size, np.float32, min))
    elif call.flag("pad_to_aspect_ratio"):
        wanted = _fitting(call, x, axes, size, np.float32, max)
        for axis, width in zip(axes, wanted, strict=True):
            border = [0] * x.type.rank
            border[axis] = (width - known_side(call, x, axis)) // 2
            x = build.pad(x, call.number("fill_value", 0.0), border, border)
    if call.flag("antialias") and mode == "nearest":
        call.unsupported("antialias of the nearest element is not supported")
    return _resized(x, axes, size, mode, call.flag("antialias"))


def sides(call: LayerCall, x: Node) -> tuple[int, int]:
    """The axes of height and width."""
    rank = x.type.rank
    if rank not in (3, 4):
        call.fail(f"x is an image or a batch of them, got {x.type}")
    first = rank - 3 if call.channels_last else rank - 2
    return first, first + 1


def known_side(call: LayerCall, x: Node, axis: int) -> int:
    """The size of an axis. Raises ShapeError where it is open."""
    size = x.shape[axis]
    if not isinstance(size, int):
        call.fail(f"the height and width of {x.type} must be known", f"--dim {size}=…")
    return size


def _fitting(
    call: LayerCall,
    x: Node,
    axes: Sequence[int],
    size: Sequence[int],
    kind: type[np.floating[Any]],
    limit: Callable[[int, int], int],
) -> tuple[int, int]:
    """The largest sides inside an image (`min`), or the smallest around it (`max`), that have the
    ratio of `size`, by Keras's arithmetic.
    """
    high, wide = (known_side(call, x, axis) for axis in axes)
    return (
        max(limit(high, int(kind(wide * size[0]) / kind(size[1]))), 1),
        max(limit(wide, int(kind(high * size[1]) / kind(size[0]))), 1),
    )


def _cropped(x: Node, axes: Sequence[int], wanted: Sequence[int]) -> Node:
    """The middle of an image."""
    for axis, width in zip(axes, wanted, strict=True):
        size = x.shape[axis]
        assert isinstance(size, int)
        x = build.cut(x, axis, (size - width) // 2, (size - width) // 2 + width)
    return x


def _resized(x: Node, axes: Sequence[int], size: Sequence[int], mode: str, smooth: bool) -> Node:
    return build.apply1(
        "resize",
        x,
        size=tuple(size),
        axes=tuple(axes),
        mode="linear" if mode == "bilinear" else "nearest",
        rounding="round_prefer_ceil" if mode == "nearest" else "round_prefer_floor",
        antialias=smooth,
        exclude_outside=smooth,
    )


@layer("CenterCrop")
def center_crop(call: LayerCall) -> Node:
    """The middle of an image that is at least as large; of others the largest part of the same
    ratio of sides, resized.
    """
    x = call.floats(call.x)
    axes, size = sides(call, x), (call.integer("height"), call.integer("width"))
    if all(known_side(call, x, axis) >= n for axis, n in zip(axes, size, strict=True)):
        return _cropped(x, axes, size)
    part = _cropped(x, axes, _fitting(call, x, axes, size, np.float64, min))
    return _resized(part, axes, size, "bilinear", False)
