"""Pooling: the geometry that all pools share, average pools and Lp pools."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xlac.frontends.limits import check_size
from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.ops.nn.geometry import Windows, fit, kernel_shape, left_out, windows
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build
from xlac.ops.reduction.window import Window

Ints = tuple[int, ...]


def placed(call: OperatorCall, x: Node) -> tuple[Node, Windows, Ints]:
    """The part of x that a pool's windows cover, the windows over that part, and how far
    `ceil_mode` lets them extend beyond its high ends.

    With `ceil_mode` a last window counts if it begins inside x or its low padding, though it ends
    outside.
    """
    rank = x.type.rank - 2
    if rank < 1:
        raise ShapeError(
            f"{call.operator} needs batch, channels and spatial axes, got {x.type}", operand=0
        )
    kernel = kernel_shape(call, rank)
    at = windows(call, x.shape[2:], kernel)
    x = cropped(x, left_out(call, x.shape[2:], kernel))
    if not call.attr("ceil_mode", 0):
        return x, at, (0,) * rank
    more = []
    for size, span, stride, (low, high) in zip(
        x.shape[2:], at.spans, at.strides, at.pads, strict=True
    ):
        if not isinstance(size, int):
            call.fail(f"ceil_mode needs sizes that are known, got {x.type}")
        count = -(-(size + low + high - span - 1) // stride) + 1
        count -= (count - 1) * stride >= size + low
        more.append(max(0, (count - 1) * stride + span + 1 - size - low - high))
    fit(call, x.shape[2:], at, tuple(more))
    return x, at, tuple(more)


def cropped(x: Node, gone: Sequence[tuple[int, int]]) -> Node:
    """x without `gone` elements at the low and the high end of each spatial axis."""
    return build.pad(x, 0, [0, 0, *(-low for low, _ in gone)], [0, 0, *(-high for _, high in gone)])


def window(combine: str, at: Windows, more: Ints) -> Window:
    """The window reduction over (batch, channels, …)."""
    high = tuple(h + m for h, m in zip(at.high, more, strict=True))
    one = (1,) * (len(at.kernel) + 2)
    return Window(
        combine,
        None,
        (1, 1, *at.kernel),
        (1, 1, *at.strides),
        (0, 0, *at.low),
        (0, 0, *high),
        one,
        (1, 1, *at.dilations),
    )


def plain(at: Windows) -> bool:
    """Whether xlac's pool operation of that rank supports these windows: up to three axes, no
    padding as wide as a window.
    """
    return len(at.kernel) <= 3 and all(
        max(pair) <= span for pair, span in zip(at.pads, at.spans, strict=True)
    )


@operator("AveragePool", since=1)
def average_pool(call: OperatorCall) -> Node:
    """Operator sets 1 to 22. Elements that `ceil_mode` adds are never counted, padding only with
    `count_include_pad` (7).
    """
    x, at, more = placed(call, call[0])
    include = bool(call.attr("count_include_pad", 0))
    if plain(at) and set(at.dilations) == {1}:
        return build.apply1(
            f"avg_pool{len(at.kernel)}d",
            x,
            kernel=at.kernel,
            stride=at.strides,
            pad=at.pads,
            ceil_mode=bool(call.attr("ceil_mode", 0)),
            count_include_pad=include,
        )
    wide = build.compute(x)
    total = Node.of(window("add", at, more), wide)
    return build.cast(
        build.div(total, build.constant(counted(x, at, total, include), wide.type.dtype)),
        x.type.dtype,
    )


COUNTED = 1 << 28  # the most bytes of the tensor that counts the elements under windows


def counted(
    x: Node, at: Windows, result: Node, include: bool
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The number of elements of x, or of x and its padding, in each window, to broadcast over
    (batch, channels, …).
    """
    counts = np.ones((1, 1))
    for axis, (kernel, stride, dilation, (low, high)) in enumerate(
        zip(at.kernel, at.strides, at.dilations, at.pads, strict=True), 2
    ):
        size, moves = x.shape[axis], result.shape[axis]
        if not isinstance(size, int) or not isinstance(moves, int):
            raise ShapeError(
                f"the elements under each window cannot be counted in {x.type}: give its sizes"
            )
        check_size((moves, kernel), 8, COUNTED)
        taps = np.arange(moves)[:, None] * stride + np.arange(kernel) * dilation - low
        inside = (taps < size + high) if include else (taps >= 0) & (taps < size)
        counts = counts[..., None] * inside.sum(1)
    return np.maximum(counts, 1.0)


@operator("GlobalAveragePool", since=1)
def global_average_pool(call: OperatorCall) -> Node:
    """Operator sets 1 and 22."""
    return build.apply1("global_avg_pool", call[0])


@operator("LpPool", since=1)
def lp_pool(call: OperatorCall) -> Node:
    """Operator sets 1, 2, 11, 18 (dilations, ceil_mode) and 22: the p-norm of each window."""
    x, at, more = placed(call, call[0])
    return _norm(
        x, float(call.attr("p", 2.0)), lambda powers: Node.of(window("add", at, more), powers)
    )


@operator("GlobalLpPool", since=1)
def global_lp_pool(call: OperatorCall) -> Node:
    """Operator sets 1, 2 and 22: the p-norm over all spatial axes."""
    x = call[0]
    axes = list(range(2, x.type.rank))
    return _norm(
        x, float(call.attr("p", 2.0)), lambda powers: build.reduce(powers, "add", axes, True)
    )


def _norm(x: Node, order: float, total: Callable[[Node], Node]) -> Node:
    wide = build.compute(x)
    size = build.apply1("abs", wide)
    if order == 1:
        norm = total(size)
    elif order == 2:
        norm = build.sqrt(total(build.mul(wide, wide)))
    else:
        norm = build.apply1("pow", total(build.apply1("pow", size, order)), 1 / order)
    return build.cast(norm, x.type.dtype)
