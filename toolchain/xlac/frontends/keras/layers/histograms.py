"""Layers that spread the values of an image by what it contains, when a model predicts too."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlac.frontends.keras.call import LayerCall
from xlac.frontends.keras.layers.images import known_side
from xlac.frontends.keras.registry import layer
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.checks import check_table
from xlac_sdk.dtypes import DType

Range = tuple[float, float]
BYTES: Range = (0.0, 255.0)
LEVELS = 256  # of the histograms


def _range(call: LayerCall) -> Range:
    """The values that images have."""
    value = call.get("value_range", list(BYTES))
    if (
        not isinstance(value, list | tuple)
        or len(value) != 2
        or not all(isinstance(n, int | float) and not isinstance(n, bool) for n in value)
    ):
        call.fail(f"value_range is {value!r}, not two numbers")
    return float(value[0]), float(value[1])


def _scaled(x: Node, old: Range, new: Range) -> Node:
    """Values of one range as those of another."""
    if old == new:
        return x
    part = build.div(build.sub(x, old[0]), old[1] - old[0])
    return build.add(build.mul(part, new[1] - new[0]), new[0])


@layer("AutoContrast")
def auto_contrast(call: LayerCall) -> Node:
    """The values of each image, and of each index of its last axis, spread over the whole range;
    where all are equal, they stay.
    """
    given = call.floats(call.x)
    rank = given.type.rank
    if rank not in (3, 4):
        call.fail(f"x is an image or a batch of them, got {given.type}")
    low, high = sorted(_range(call))
    x = _scaled(given, (low, high), BYTES)
    axes = (rank - 3, rank - 2)
    least, most = (build.reduce(x, kind, axes, keepdims=True) for kind in ("min", "max"))
    scale = build.div(255.0, build.sub(most, least))
    moved = build.add(build.mul(x, scale), build.mul(build.apply1("neg", least), scale))
    spread = build.minimum(build.maximum(moved, 0.0), 255.0)
    spread = _scaled(spread, BYTES, (low, high))
    return build.select(build.apply1("isnan", spread), given, spread)


@layer("ContrastLimitedAdaptiveHistogramEqualization")
def clahe(call: LayerCall) -> Node:
    """Each value as the share of values below it in the tiles around it, interpolated between the
    four nearest; what a histogram has beyond the limit is spread over all its levels.
    """
    given = call.floats(call.x)
    rank, last, values = given.type.rank, call.channels_last, _range(call)
    if rank not in (3, 4):
        call.fail(f"x is an image or a batch of them, got {given.type}")
    x = given if rank == 4 else build.reshape(given, (1, *given.shape))
    x = build.transpose(x, (0, 3, 1, 2)) if last else x  # batch, channels, height, width
    x = _scaled(x if values == BYTES else build.cast(x, DType.F32), values, BYTES)
    grid = call.integers("tile_grid_size", 2, 8)
    sizes = (known_side(call, x, 2), known_side(call, x, 3))
    check_table("an equalization", sum(map(float, (*sizes, *grid))), x.type)
    tiles = tuple(-(-size // count) for size, count in zip(sizes, grid, strict=True))
    for axis, count in ((2, grid[0]), (3, grid[1])):
        x = _mirrored(call, x, axis, tiles[axis - 2] * count)
    levels = build.cast(build.minimum(build.maximum(x, 0.0), 255.0), DType.I32)
    shares = _shares(call, levels, grid, tiles)
    y = _interpolated(levels, shares, grid, tiles)
    y = build.cut(build.cut(y, 2, 0, sizes[0]), 3, 0, sizes[1])
    y = build.cast(_scaled(y, BYTES, values), given.type.dtype)
    y = build.transpose(y, (0, 2, 3, 1)) if last else y
    return y if rank == 4 else build.reshape(y, given.shape)


def _mirrored(call: LayerCall, x: Node, axis: int, wanted: int) -> Node:
    """x with its last elements along an axis repeated in reverse order, up to a size."""
    size = known_side(call, x, axis)
    if wanted == size:
        return x
    if wanted > 2 * size:
        call.fail(f"tiles of {x.type} reach more than once its size beyond it")
    places = np.concatenate([np.arange(size), np.arange(size - 1, 2 * size - wanted - 1, -1)])
    return build.take(x, build.constant(places), axis)


def _shares(call: LayerCall, levels: Node, grid: tuple[int, ...], tiles: tuple[int, ...]) -> Node:
    """Of each tile (batch, channels, rows, columns) the share of its pixels up to each level, as
    values up to 255.
    """
    batch, channels = levels.shape[:2]
    area = tiles[0] * tiles[1]
    split = build.reshape(levels, (batch, channels, grid[0], tiles[0], grid[1], tiles[1]))
    split = build.transpose(split, (0, 1, 2, 4, 3, 5))
    tiled = build.reshape(split, (batch, channels, *grid, area))
    counts = build.reduce(build.apply1("one_hot", tiled, depth=LEVELS), "add", 4)
    limit = call.number("clip_limit", 4.0) * area / LEVELS
    if limit > 0:
        clipped = build.minimum(counts, limit)
        excess = build.reduce(build.sub(counts, clipped), "add", 4, keepdims=True)
        counts = build.add(clipped, build.div(excess, float(LEVELS)))
    sums = build.apply1("cumsum", counts, axis=4)
    least = build.reduce(sums, "min", 4, keepdims=True)
    rest = build.sub(float(area), least)
    rest = build.select(build.compare(rest, "eq", 0.0), build.like(1.0, rest), rest)
    shares = build.div(build.mul(build.sub(sums, least), 255.0), rest)
    return build.minimum(build.maximum(shares, 0.0), 255.0)


def _interpolated(
    levels: Node, shares: Node, grid: tuple[int, ...], tiles: tuple[int, ...]
) -> Node:
    """The share of each pixel's level, between those of the tiles whose centres are nearest."""
    batch, channels, height, width = levels.shape
    table = build.reshape(shares, (batch, channels, grid[0] * grid[1] * LEVELS))
    flat = (batch, channels, build.reshape(levels, (batch, channels, -1)).shape[2])
    places, weights = [], []
    for axis, (count, tile) in enumerate(zip(grid, tiles, strict=True)):
        where = (np.arange(count * tile, dtype=np.float32) - tile / 2) / tile
        below = np.floor(where).astype(np.int32)
        near = [np.clip(below + side, 0, count - 1) for side in (0, 1)]
        places.append([_along(part, axis) for part in near])
        weights.append(_along((where - below).astype(np.float32), axis))
    rows = []
    for row in places[0]:
        pair = []
        for column in places[1]:
            tile_at = build.mul(build.add(build.mul(row, grid[1]), column), LEVELS)
            at = build.reshape(build.add(levels, tile_at), flat)
            found = build.apply1("take_along_axis", table, at, axis=2)
            pair.append(build.reshape(found, (batch, channels, height, width)))
        rows.append(_mixed(pair[0], pair[1], weights[1]))
    return _mixed(rows[0], rows[1], weights[0])


def _along(values: np.ndarray[tuple[int], np.dtype[Any]], axis: int) -> Node:
    """Numbers along height (0) or width (1)."""
    return build.constant(values.reshape((-1, 1) if axis == 0 else (1, -1)))


def _mixed(x: Node, y: Node, share: Node) -> Node:
    return build.add(build.mul(x, build.sub(1.0, share)), build.mul(y, share))
