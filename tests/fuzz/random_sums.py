"""Random products, convolutions and reductions whose sizes lie around the registers and blocks of
kernels, with axes of 0 and 1, sometimes with something fused before or after.
"""

from __future__ import annotations

import math
from random import Random

from graph_maker import Case, Maker, Value

from xlac.ir.graph import Graph, Node
from xlac.ops import build
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType

SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 64, 65, 100, 129)
SQUARES = (16, 32, 64, 96, 100, 128, 160)
CHANNELS = (1, 1, 2, 3, 4, 8, 16, 17)
PIXELS = (1, 3, 4, 7, 8, 14, 17, 28)
TAPS = ((1, 1), (3, 3), (3, 3), (1, 3), (5, 5), (2, 2), (7, 7))
LAYOUTS = (("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC"))
FLOATS = (DType.F32, DType.F32, DType.F32, DType.F64)
HALVES = (*FLOATS, DType.F16, DType.BF16)
NUMBERS = (*HALVES, DType.I32, DType.I8, DType.I64)
LARGEST = 20_000  # elements that are reduced


def make(random: Random) -> Case:
    """One random sum; the graph has one output, y."""
    maker, found = Maker(random, ()), None
    while found is None:
        found = random.choice((_product, _product, _convolution, _convolution, _reduction))(maker)
    if found.type.dtype.is_float and random.random() < 0.5:
        scaled = build.mul(found, 0.1)
        after = random.random() < 0.5
        found = build.apply1("tanh", scaled) if after else build.maximum(found, 0.0)
        if found.shape and found.type.size and random.random() < 0.3:
            found = build.reduce(found, "add", (len(found.shape) - 1,))
    return Case(Graph("sums", tuple(maker.params), {"y": found}), maker.inputs, maker.weights)


def _second(m: Maker, shape: tuple[int, ...], dtype: DType) -> Value:
    """A second operand, mostly a weight."""
    return m.param(shape, dtype, m.random.choice(("input", "weight", "weight")))


def _product(m: Maker) -> Node:
    random, dtype = m.random, m.random.choice(HALVES)
    rows, depth, columns = (random.choice(SIZES) for _ in range(3))
    if random.random() < 0.3:
        rows = depth = columns = random.choice(SQUARES)
    left, right = random.random() < 0.6, random.random() < 0.6
    x = m.param((rows, depth) if left else (depth, rows), dtype).node
    y = _second(m, (depth, columns) if right else (columns, depth), dtype).node
    if random.random() < 0.2:
        x = build.mul(x, 2.0)
    if random.random() < 0.15:
        y = build.apply1("tanh", y)
    return build.dot(x, y, ((int(left),), (int(not right),)))


def _convolution(m: Maker) -> Node | None:
    random, dtype = m.random, m.random.choice(FLOATS)
    batch, groups = random.choice((0, 1, 1, 2)), random.choice((1, 1, 1, 2, 3))
    channels = groups * random.choice(CHANNELS)
    filters = groups * random.choice((*CHANNELS, 32))
    if random.random() < 0.25:
        groups, filters = channels, channels * random.choice((1, 1, 2))
    image, taps = (random.choice(PIXELS), random.choice(PIXELS)), random.choice(TAPS)
    stride, dilation = random.choice((1, 1, 2)), random.choice((1, 1, 1, 2))
    border = random.choice((0, 0, 1, 2))
    if any(n + 2 * border < (t - 1) * dilation + 1 for n, t in zip(image, taps, strict=True)):
        return None
    layout = random.choice(LAYOUTS)
    first = layout[0] == "NCHW"
    x = m.param((batch, channels, *image) if first else (batch, *image, channels), dtype)
    each = channels // groups
    w = _second(m, (filters, each, *taps) if first else (*taps, each, filters), dtype)
    pads, ones = (border,) * 2, (1, 1)
    op = Conv(layout, (stride,) * 2, pads, pads, ones, (dilation,) * 2, groups)
    found = Node.of(op, x.node, w.node)
    if random.random() < 0.5:
        bias = m.param((filters,), dtype, "weight")
        found = build.add(found, build.spread(bias.node, found.shape, (layout[2].index("C"),)))
    return found


def _reduction(m: Maker) -> Node:
    random, dtype = m.random, m.random.choice(NUMBERS)
    shape = tuple(random.choice(SIZES) for _ in range(random.randint(1, 4)))
    if math.prod(shape) > LARGEST:
        shape = tuple(min(size, 8) for size in shape)
    axes = tuple(sorted(random.sample(range(len(shape)), random.randint(1, len(shape)))))
    x = m.param(shape, dtype).node
    if dtype.is_float and random.random() < 0.5:
        x = build.apply1("tanh", x)
    empty = any(shape[axis] == 0 for axis in axes)
    return build.reduce(x, "add" if empty else random.choice(("add", "add", "max", "min")), axes)
