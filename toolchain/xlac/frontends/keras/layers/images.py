"""Preprocessing of numbers and images."""

from __future__ import annotations

import numpy as np

from xlac.frontends.keras.call import LayerCall
from xlac.frontends.keras.registry import layer
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType

RANDOM = (
    "AugMix", "CutMix", "MixUp", "RandAugment", "RandomBrightness", "RandomColorDegeneration",
    "RandomColorJitter", "RandomContrast", "RandomElasticTransform", "RandomErasing", "RandomFlip",
    "RandomGaussianBlur", "RandomGrayscale", "RandomHue", "RandomInvert", "RandomPerspective",
    "RandomPosterization", "RandomRotation", "RandomSaturation", "RandomSharpness", "RandomShear",
    "RandomTranslation", "RandomZoom",
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
    """Height and width as wanted."""
    if call.flag("crop_to_aspect_ratio") or call.flag("pad_to_aspect_ratio"):
        call.unsupported("keeping the ratio of sides is not supported")
    if call.flag("antialias"):
        call.unsupported("antialias is not supported")
    mode = call.choice("interpolation", ("bilinear", "nearest"), "bilinear")
    x = call.floats(call.x)
    rank = x.type.rank
    if rank not in (3, 4):
        call.fail(f"x is an image or a batch of them, got {x.type}")
    first = rank - 3 if call.channels_last else rank - 2
    return build.apply1(
        "resize",
        x,
        size=(call.integer("height"), call.integer("width")),
        axes=(first, first + 1),
        mode="linear" if mode == "bilinear" else "nearest",
        rounding="round_prefer_ceil" if mode == "nearest" else "round_prefer_floor",
    )


@layer("CenterCrop")
def center_crop(call: LayerCall) -> Node:
    """The middle of an image that is at least as large."""
    x = call.floats(call.x)
    rank = x.type.rank
    first = rank - 3 if call.channels_last else rank - 2
    for axis, name in ((first, "height"), (first + 1, "width")):
        size, wanted = x.shape[axis], call.integer(name)
        if not isinstance(size, int) or size < wanted:
            call.unsupported(f"its image has open sides, or is smaller than it crops: {x.type}")
        start = (size - wanted) // 2
        x = build.cut(x, axis, start, start + wanted)
    return x


@layer("Discretization")
def discretization(call: LayerCall) -> Node:
    """The number of the bin that contains each element."""
    if call.get("output_mode", "int") != "int":
        call.unsupported("only output_mode 'int' is supported")
    bounds = call.get("bin_boundaries")
    if not isinstance(bounds, list) or not bounds:
        call.unsupported("bins that are adapted to data are not supported")
    edges = build.constant(np.asarray(bounds, np.float32))
    x = build.cast(call.x, DType.F32)
    above = build.compare(build.reshape(x, (*x.shape, 1)), "ge", edges)
    return build.reduce(build.cast(above, DType.I32), "add", x.type.rank)
