"""Regions of interest resampled to one size: RoiAlign and MaxRoiPool."""

from __future__ import annotations

import numpy as np

from xlac.frontends.limits import check_parts
from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build
from xlac.ops.control.control import While
from xlac.ops.tensor.grid import gathered
from xlac_sdk.dtypes import DType


def column(x: Node, number: int) -> Node:
    """A column of a matrix, as a vector."""
    return build.reshape(build.cut(x, 1, number, number + 1), (x.shape[0],))


# ---- RoiAlign --------------------------------------------------------------------------------


@operator("RoiAlign", since=10)
def roi_align_10(call: OperatorCall) -> Node:
    """Operator set 10."""
    return _roi_align(call, "output_half_pixel")


@operator("RoiAlign", since=16)
def roi_align_16(call: OperatorCall) -> Node:
    """Operator sets 16 (coordinate_transformation_mode) and 22."""
    return _roi_align(call, "half_pixel")


def _roi_align(call: OperatorCall, default: str) -> Node:
    """Each bin of a box is the mean, or the maximum, of values interpolated at sample positions."""
    x, boxes, batches = call[0], call[1], call[2]
    if (
        x.type.rank != 4
        or boxes.type.rank != 2
        or boxes.shape[1] != 4
        or not all(isinstance(n, int) for n in x.shape[2:])
    ):
        raise ShapeError(
            f"RoiAlign takes images of known size and boxes (count, 4), got {x.type} and "
            f"{boxes.type}"
        )
    aligned = call.attr("coordinate_transformation_mode", default) == "half_pixel"
    mode = call.attr("mode", "avg").lower()
    if mode not in ("avg", "max"):
        call.fail(f"mode is avg or max, not '{mode}'")
    counts = [call.attr("output_height", 1), call.attr("output_width", 1)]
    ratio, scale = call.attr("sampling_ratio", 0), call.attr("spatial_scale", 1.0)
    for count in counts:
        check_parts(count * max(ratio, 1))
    edges = build.sub(build.mul(build.compute(boxes), scale), 0.5 if aligned else 0.0)
    images = build.take(build.compute(x), batches, 0)
    lines = []
    for axis, count in enumerate(counts):
        start = column(edges, 1 - axis)
        length = build.sub(column(edges, 3 - axis), start)
        lines.append(
            (start, length if aligned else build.maximum(length, 1.0), count, x.shape[2 + axis])
        )
    if mode == "max":
        if ratio < 1:
            call.fail(
                "mode max with a number of samples that depends on the boxes is not supported",
                hint="give a sampling_ratio",
            )
        return build.cast(
            _largest(images, [_places(*line[:3], ratio) for line in lines], counts, ratio),
            x.type.dtype,
        )
    rows, columns = (_means(*line, ratio) for line in lines)
    interpolated = build.dot(
        rows, images, ((2,), (2,)), ((0,), (0,))
    )  # (boxes, rows, channels, width)
    interpolated = build.dot(interpolated, columns, ((3,), (2,)), ((0,), (0,)))
    return build.cast(build.transpose(interpolated, (0, 2, 1, 3)), x.type.dtype)


def _places(start: Node, length: Node, count: int, samples: int) -> Node:
    """The sample positions of every bin along one axis: (boxes, count * samples)."""
    bin_ = build.div(length, float(count))
    at = build.constant((np.arange(count * samples) + 0.5) / samples, start.type.dtype)
    return build.add(build.reshape(start, (-1, 1)), build.mul(build.reshape(bin_, (-1, 1)), at))


def _shares(at: Node, size: int) -> Node:
    """The linear interpolation weight of each of `size` elements at positions (…), on a new last
    axis; zero for positions outside [-1, size].
    """
    wide = build.reshape(at, (*at.shape, 1))
    held = build.minimum(build.maximum(wide, 0.0), size - 1.0)
    element = build.cast(build.iota((*(1 for _ in at.shape), size), at.type.rank), at.type.dtype)
    share = build.maximum(build.sub(1.0, build.apply1("abs", build.sub(held, element))), 0.0)
    inside = build.apply1(
        "and", build.compare(wide, "ge", -1.0), build.compare(wide, "le", float(size))
    )
    return build.select(inside, share, 0.0)


def _means(start: Node, length: Node, count: int, size: object, ratio: int) -> Node:
    """The weight of each element of one axis in the mean of each bin: (boxes, count, size)."""
    assert isinstance(size, int)
    if ratio > 0:
        shares = _shares(_places(start, length, count, ratio), size)
        apart = build.reshape(shares, (start.shape[0], count, ratio, size))
        return build.apply1("mean", apart, axis=2)
    return _means_of_many(start, length, count, size)


def _means_of_many(start: Node, length: Node, count: int, size: int) -> Node:
    """The same where the boxes decide the number of samples per bin: a loop adds one sample at a
    time.
    """
    dtype = start.type.dtype
    bins = build.div(build.reshape(length, (-1, 1)), float(count))
    samples = build.apply1("ceil", bins)  # (boxes, 1)
    first = build.add(
        build.reshape(start, (-1, 1)), build.mul(bins, build.constant(np.arange(count), dtype))
    )
    number = build.constant(0.0, dtype)
    total = build.full(0.0, (start.shape[0], count, size), dtype)
    most = build.reduce(samples, "max")

    def more(number: Node, total: Node, most: Node, first: Node, bins: Node, samples: Node) -> Node:
        return build.compare(number, "lt", most)

    def step(
        number: Node, total: Node, most: Node, first: Node, bins: Node, samples: Node
    ) -> tuple[Node, ...]:
        at = build.add(first, build.div(build.mul(bins, build.add(number, 0.5)), samples))
        real = build.reshape(build.compare(number, "lt", samples), (-1, 1, 1))
        shares = build.select(real, _shares(at, size), 0.0)
        return build.add(number, 1.0), build.add(total, shares), most, first, bins, samples

    carry = [number, total, most, first, bins, samples]
    types = [n.type for n in carry]
    sums = build.results(
        Node.of(While(build.graph("more", types, more), build.graph("step", types, step)), *carry)
    )[1]
    return build.div(sums, build.maximum(build.reshape(samples, (-1, 1, 1)), 1.0))


def _largest(images: Node, places: list[Node], counts: list[int], ratio: int) -> Node:
    """The maximum, over the samples of a bin, of the pixels around each sample times their
    weights.
    """
    height, width = (n for n in images.shape[2:] if isinstance(n, int))
    flat = build.reshape(images, (*images.shape[:2], height * width))
    # for each axis: the two elements next to each position, and their weights
    corners: list[list[tuple[Node, Node]]] = []
    for at, size in zip(places, (height, width), strict=True):
        inside = build.apply1(
            "and", build.compare(at, "ge", -1.0), build.compare(at, "le", float(size))
        )
        held = build.minimum(build.maximum(at, 0.0), size - 1.0)
        low = build.apply1("floor", held)
        part = build.sub(held, low)
        high = build.minimum(build.add(low, 1.0), size - 1.0)
        shares = (build.sub(1.0, part), part)
        corners.append(
            [
                (build.cast(e, DType.I64), build.select(inside, s, 0.0))
                for e, s in zip((low, high), shares, strict=True)
            ]
        )
    best: Node | None = None
    rows, columns = (p.shape[1] for p in places)
    for y, share_y in corners[0]:
        for x, share_x in corners[1]:
            at = build.add(
                build.mul(build.reshape(y, (*y.shape, 1)), width),
                build.reshape(x, (x.shape[0], 1, columns)),
            )
            weighted = gathered(flat, build.reshape(at, (at.shape[0], rows * columns)))
            share = build.mul(
                build.reshape(share_y, (*y.shape, 1)),
                build.reshape(share_x, (x.shape[0], 1, columns)),
            )
            weighted = build.mul(
                weighted, build.reshape(share, (share.shape[0], 1, rows * columns))
            )
            best = weighted if best is None else build.maximum(best, weighted)
    assert best is not None
    apart = build.reshape(best, (*best.shape[:2], counts[0], ratio, counts[1], ratio))
    return build.reduce(apart, "max", (3, 5))


# ---- MaxRoiPool ------------------------------------------------------------------------------


@operator("MaxRoiPool", since=1)
def max_roi_pool(call: OperatorCall) -> Node:
    """Operator sets 1 and 22: the maximum of each bin of boxes (batch, x1, y1, x2, y2); 0 for an
    empty bin.
    """
    x, boxes = call[0], call[1]
    counts, scale = call.attr("pooled_shape"), call.attr("spatial_scale", 1.0)
    if x.type.rank != 4 or boxes.type.rank != 2 or boxes.shape[1] != 5 or len(counts) != 2:
        raise ShapeError(
            f"MaxRoiPool takes images and boxes (count, 5), got {x.type} and {boxes.type}"
        )
    images = build.take(x, build.cast(column(boxes, 0), DType.I64), 0)
    masks = []
    for axis, count in enumerate(map(check_parts, counts)):
        size = x.shape[2 + axis]
        low, high = (
            build.apply1("round_half_away", build.mul(build.compute(column(boxes, n)), scale))
            for n in (2 - axis, 4 - axis)
        )
        bin_ = build.div(build.maximum(build.add(build.sub(high, low), 1.0), 1.0), float(count))
        number = build.constant(np.arange(count + 1), bin_.type.dtype)
        ends = build.mul(build.reshape(bin_, (-1, 1)), number)
        first = build.add(
            build.apply1("floor", build.cut(ends, 1, 0, count)), build.reshape(low, (-1, 1))
        )
        last = build.add(
            build.apply1("ceil", build.cut(ends, 1, 1, count + 1)), build.reshape(low, (-1, 1))
        )
        at = build.cast(build.iota((1, 1, size), 2), bin_.type.dtype)
        wide = [build.reshape(n, (*n.shape, 1)) for n in (first, last)]
        masks.append(
            build.apply1("and", build.compare(at, "ge", wide[0]), build.compare(at, "lt", wide[1]))
        )
    rows, columns = masks  # (boxes, count, size)
    lowest = -np.inf
    beside = build.reshape(columns, (columns.shape[0], 1, 1, *columns.shape[1:]))
    wide_x = build.reshape(images, (*images.shape[:3], 1, images.shape[3]))
    # (boxes, channels, height, columns)
    maxima = build.reduce(build.select(beside, wide_x, lowest), "max", 4)
    above = build.reshape(rows, (rows.shape[0], 1, *rows.shape[1:], 1))
    tall = build.reshape(maxima, (*maxima.shape[:2], 1, *maxima.shape[2:]))
    maxima = build.reduce(build.select(above, tall, lowest), "max", 3)
    filled = [build.reduce(mask, "or", 2) for mask in (rows, columns)]
    some = build.apply1(
        "and",
        build.reshape(filled[0], (rows.shape[0], 1, counts[0], 1)),
        build.reshape(filled[1], (rows.shape[0], 1, 1, counts[1])),
    )
    return build.select(some, maxima, build.like(0.0, maxima))
