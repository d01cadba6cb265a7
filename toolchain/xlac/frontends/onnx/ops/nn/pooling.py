"""Pools: the largest, the mean or the norm of the elements under a window; and the way back from
the largest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from xlac.frontends.onnx.graph.call import Call
from xlac.frontends.onnx.limits import check_size
from xlac.frontends.onnx.ops.nn.geometry import (
    Windows,
    fit,
    kernel_shape,
    left_out,
    listed,
    windows,
)
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.reduction import reduction
from xlac.ops.tensor import index
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]


def placed(call: Call, x: Node) -> tuple[Node, Windows, Ints]:
    """What of x lies under the windows of a pool, the windows over that, and how much further
    `ceil_mode` lets them reach at the high ends.

    With `ceil_mode` a last window counts that begins inside x or its low padding, though it ends
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
    """x without so many elements at the low and the high end of each spatial axis."""
    return build.pad(x, 0, [0, 0, *(-low for low, _ in gone)], [0, 0, *(-high for _, high in gone)])


def window(combine: str, at: Windows, more: Ints) -> reduction.Window:
    """The primitive that moves windows over (batch, channels, …)."""
    high = tuple(h + m for h, m in zip(at.high, more, strict=True))
    one = (1,) * (len(at.kernel) + 2)
    return reduction.Window(
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
    """Whether our pool of that rank takes these windows: up to three axes, no padding wider than a
    window.
    """
    return len(at.kernel) <= 3 and all(
        max(pair) <= span for pair, span in zip(at.pads, at.spans, strict=True)
    )


# ---- the largest -----------------------------------------------------------------------------


@operator("MaxPool", since=1)
def max_pool(call: Call) -> Node | tuple[Node, Node]:
    """Operator sets 1 to 22; the second output (8) says where in the whole tensor the first of the
    largest is.
    """
    whole = call[0]
    x, at, more = placed(call, whole)
    if call.wants(1):
        return _largest_and_where(call, whole, x, window("body", at, more))
    if plain(at):
        return build.apply1(
            f"max_pool{len(at.kernel)}d",
            x,
            kernel=at.kernel,
            stride=at.strides,
            pad=at.pads,
            dilation=at.dilations,
            ceil_mode=bool(call.attr("ceil_mode", 0)),
        )
    return Node.of(window("max", at, more), x)


def _largest_and_where(call: Call, whole: Node, x: Node, at: reduction.Window) -> tuple[Node, Node]:
    """The largest element of each window over x, and its flat position in the whole: of equal ones
    the first in memory.
    """
    last = np.iinfo(np.int64).max
    lowest = -np.inf if x.type.dtype.is_float else np.iinfo(x.type.dtype.numpy).min

    def larger(a: Node, a_at: Node, b: Node, b_at: Node) -> tuple[Node, Node]:
        same = build.apply1("and", build.compare(b, "eq", a), build.compare(b_at, "lt", a_at))
        better = build.apply1("or", build.compare(b, "gt", a), same)
        return build.select(better, b, a), build.select(better, b_at, a_at)

    scalars = [Type(x.type.dtype), Type(DType.I64)] * 2
    op = reduction.Window(
        "body",
        build.graph("larger", scalars, larger),
        at.window,
        at.strides,
        at.low,
        at.high,
        at.base_dilation,
        at.window_dilation,
    )
    extents = whole.shape[2:]
    places = build.broadcast_to(
        build.reshape(build.iota((prod_of(extents),), 0), extents), whole.shape
    )
    places = cropped(places, left_out(call, extents, at.window[2:]))
    inits = build.constant(lowest, x.type.dtype), build.constant(last, DType.I64)
    y, where = build.results(Node.of(op, x, places, *inits))
    if call.attr("storage_order", 0):
        where = _column_major(where, extents)
    plane = build.reshape(
        build.iota((x.shape[0] * x.shape[1],), 0), (*x.shape[:2], *[1] * len(extents))
    )
    return y, build.add(where, build.mul(plane, build.constant(prod_of(extents), DType.I64)))


def prod_of(extents: tuple[object, ...]) -> int:
    """How many elements there are, which must be known."""
    if not all(isinstance(size, int) for size in extents):
        raise ShapeError("the positions of the largest elements need sizes that are known")
    return prod(extents)  # type: ignore[arg-type]


def _column_major(where: Node, extents: tuple[object, ...]) -> Node:
    """Row-major positions among extents as positions where the first axis runs fastest."""
    found: Node | None = None
    step, inner = 1, prod_of(extents)
    for size in extents:
        assert isinstance(size, int)
        inner //= max(size, 1)
        digit = build.apply1("rem", build.div(where, inner), size)
        part = build.mul(digit, step)
        found = part if found is None else build.add(found, part)
        step *= size
    assert found is not None
    return found


@operator("GlobalMaxPool", since=1)
def global_max_pool(call: Call) -> Node:
    """Operator sets 1 and 22."""
    return build.apply1("global_max_pool", call[0])


@operator("MaxUnpool", since=9)
def max_unpool(call: Call) -> Node:
    """Operator sets 9, 11 and 22: each element at its flat position, in zeros of the size that was
    pooled.

    With `output_shape` these zeros are then continued, or cut, to that shape.
    """
    x, where = call[0], call[1]
    rank = x.type.rank - 2
    kernel, strides = kernel_shape(call, rank), listed(call, "strides", rank, 1, 1)
    flat = listed(call, "pads", 2 * rank, 0, 0)
    sizes = [
        (n - 1) * s - low - high + k
        for n, s, low, high, k in zip(
            x.shape[2:], strides, flat[:rank], flat[rank:], kernel, strict=True
        )
    ]
    shape = (*x.shape[:2], *sizes)
    count = prod_of(shape)
    op = index.Scatter(
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
        combine="assign",
    )
    zeros = build.full(0, (count,), x.type.dtype)
    filled = Node.of(op, zeros, build.reshape(where, (-1, 1)), build.reshape(x, (-1,)))
    found = build.reshape(filled, shape)
    wanted = call.ints(2)
    if wanted is None:
        return found
    return build.pad(
        found, 0, [0] * (rank + 2), [new - old for new, old in zip(wanted, shape, strict=True)]
    )


# ---- means and norms -------------------------------------------------------------------------


@operator("AveragePool", since=1)
def average_pool(call: Call) -> Node:
    """Operator sets 1 to 22; what `ceil_mode` adds is never counted, padding only with
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


COUNTED = 1 << 28  # bytes of what counts the elements under windows


def counted(
    x: Node, at: Windows, result: Node, include: bool
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """How many elements of x, or of x and its padding, each window holds, to broadcast over (batch,
    channels, …).
    """
    found = np.ones((1, 1))
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
        found = found[..., None] * inside.sum(1)
    return np.maximum(found, 1.0)


@operator("GlobalAveragePool", since=1)
def global_average_pool(call: Call) -> Node:
    """Operator sets 1 and 22."""
    return build.apply1("global_avg_pool", call[0])


@operator("LpPool", since=1)
def lp_pool(call: Call) -> Node:
    """Operator sets 1, 2, 11, 18 (dilations, ceil_mode) and 22: the p-norm of each window."""
    x, at, more = placed(call, call[0])
    return _norm(
        x, float(call.attr("p", 2)), lambda powers: Node.of(window("add", at, more), powers)
    )


@operator("GlobalLpPool", since=1)
def global_lp_pool(call: Call) -> Node:
    """Operator sets 1, 2 and 22: the p-norm over all spatial axes."""
    x = call[0]
    axes = list(range(2, x.type.rank))
    return _norm(
        x, float(call.attr("p", 2)), lambda powers: build.reduce(powers, "add", axes, True)
    )


def _norm(x: Node, order: float, total: Callable[[Node], Node]) -> Node:
    wide = build.compute(x)
    size = build.apply1("abs", wide)
    if order == 1:
        found = total(size)
    elif order == 2:
        found = build.sqrt(total(build.mul(wide, wide)))
    else:
        found = build.apply1("pow", total(build.apply1("pow", size, order)), 1 / order)
    return build.cast(found, x.type.dtype)
