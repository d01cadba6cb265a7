"""Steps of random graphs that multiply, go through windows or loop: each takes a maker and gives
a value, or nothing where none fits.
"""

from __future__ import annotations

import math

from graph_maker import Maker, Value

from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control import control
from xlac.ops.reduction.conv import Conv
from xlac.ops.reduction.window import Window
from xlac_sdk.dtypes import DType


def contraction(m: Maker) -> Value | None:
    x = m.some(lambda v: v.dtype.is_float and len(v.shape) in (1, 2, 3))
    if x is None:
        return None
    depth, columns = x.shape[-1], m.size()
    rank = len(x.shape)
    if rank == 3 and m.random.random() < 0.5:
        shape = (
            (x.shape[0], depth, columns)
            if m.random.random() < 0.5
            else (x.shape[0], columns, depth)
        )
        y = m.fresh(shape, x.dtype)
        contract = 1 if shape[1] == depth and shape[2] == columns else 2
        result = build.dot(x.node, y.node, ((2,), (contract,)), ((0,), (0,)))
    else:
        flipped = m.random.random() < 0.5
        y = m.fresh((columns, depth) if flipped else (depth, columns), x.dtype)
        at = m.random.choice([a for a in range(rank) if x.shape[a] == depth])
        result = build.dot(x.node, y.node, ((at,), (1 if flipped else 0,)))
    scaled = build.div(result, float(max(1, depth)))
    if m.random.random() < 0.5 and columns:
        bias = m.fresh((columns,), x.dtype)
        scaled = build.add(scaled, build.spread(bias.node, scaled.shape, (len(scaled.shape) - 1,)))
    return Value(scaled, x.bound * y.bound + 2)


def convolution(m: Maker) -> Value | None:
    """A small image convolved, sometimes with a normalisation by channel after it."""
    x = m.some(lambda v: v.dtype is DType.F32 and len(v.shape) == 4 and 0 not in v.shape)
    if x is None:
        x = m.param(
            (
                m.random.randint(1, 2),
                m.random.randint(1, 4),
                m.random.randint(3, 6),
                m.random.randint(3, 6),
            ),
            DType.F32,
        )
    channels, taps = x.shape[1], m.random.choice((1, 2, 3))
    if min(x.shape[2:]) < taps:
        return None
    filters, border, stride = (
        m.random.randint(1, 5),
        m.random.choice((0, 1)),
        m.random.choice((1, 1, 2)),
    )
    kernel = m.fresh((filters, channels, taps, taps), DType.F32)
    pads = (border, border)
    node = Node.of(
        Conv(("NCHW", "OIHW", "NCHW"), (stride, stride), pads, pads, (1, 1), (1, 1)),
        x.node,
        kernel.node,
    )
    bound = x.bound * kernel.bound * channels * taps * taps
    node = build.div(node, float(channels * taps * taps))
    if m.random.random() < 0.6:
        shift, scale = (m.fresh((filters,), DType.F32).node for _ in range(2))
        node = build.mul(
            build.add(node, build.spread(shift, node.shape, (1,))),
            build.spread(scale, node.shape, (1,)),
        )
    return Value(node, (bound / (channels * taps * taps) + 2) * 2)


def pooled(m: Maker) -> Value | None:
    x = m.some(lambda v: v.dtype.is_float and len(v.shape) in (2, 3, 4) and 0 not in v.shape)
    if x is None:
        return None
    rank = len(x.shape)
    window = tuple(m.random.randint(1, min(3, size)) for size in x.shape)
    strides = tuple(m.random.choice((1, 1, 2)) for _ in range(rank))
    combine, ones, zeros = m.random.choice(("max", "add")), (1,) * rank, (0,) * rank
    result = Node.of(Window(combine, None, window, strides, zeros, zeros, ones, ones), x.node)
    return Value(result, x.bound * math.prod(window) if combine == "add" else x.bound)


def looped(m: Maker) -> Value | None:
    """A scan that carries a vector and projects what it scans, or a branch."""
    x = m.some(lambda v: v.dtype is DType.F32 and len(v.shape) == 2 and 0 not in v.shape)
    if x is None:
        return None
    length, width = x.shape
    vector, matrix = Type(DType.F32, (width,)), Type(DType.F32, (width, width))
    weight, first = m.fresh((width, width), DType.F32), m.fresh((width,), DType.F32)
    if m.random.random() < 0.3:
        index_ = m.param((), DType.I32)
        branches = tuple(
            build.graph(
                f"branch{k}",
                [x.node.type, vector],
                lambda a, b, k=k: build.add(a, build.spread(build.mul(b, float(k)), a.shape, (1,))),
            )
            for k in range(2)
        )
        return Value(Node.of(control.Cond(branches), index_.node, x.node, first.node), x.bound + 3)

    def step(h: Node, s: Node, w: Node) -> tuple[Node, Node]:
        seen = build.div(build.dot(s, w, ((0,), (0,))), float(width))
        new = build.mul(build.add(h, build.exp(build.minimum(seen, 0.0))), 0.5)
        return new, build.add(new, build.mul(s, build.reduce(build.sqrt(build.mul(w, w)), "max")))

    body = build.graph("step", [vector, vector, matrix], step)
    scan = Node.of(
        control.Scan(body, length, 1, 1, m.random.random() < 0.3), first.node, x.node, weight.node
    )
    return Value(build.pick(scan, m.random.randrange(2)), (first.bound + 2) + x.bound * 2)
