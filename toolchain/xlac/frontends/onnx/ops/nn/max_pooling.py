"""MaxPool, MaxUnpool and GlobalMaxPool."""

from __future__ import annotations

from math import prod

import numpy as np

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.ops.nn.geometry import kernel_shape, left_out, listed
from xlac.frontends.onnx.ops.nn.pooling import cropped, placed, plain, window
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.reduction.window import Window
from xlac.ops.tensor import scatter
from xlac_sdk.dtypes import DType


@operator("MaxPool", since=1)
def max_pool(call: OperatorCall) -> Node | tuple[Node, Node]:
    """Operator sets 1 to 22; the second output (since 8) is the flat index of each window's maximum
    in the whole tensor.
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


def _largest_and_where(call: OperatorCall, whole: Node, x: Node, at: Window) -> tuple[Node, Node]:
    """The maximum of each window over x, and its flat index in the whole tensor: of equal ones the
    first in memory.
    """
    last = np.iinfo(np.int64).max
    lowest = -np.inf if x.type.dtype.is_float else np.iinfo(x.type.dtype.numpy).min

    def larger(a: Node, a_at: Node, b: Node, b_at: Node) -> tuple[Node, Node]:
        same = build.apply1("and", build.compare(b, "eq", a), build.compare(b_at, "lt", a_at))
        better = build.apply1("or", build.compare(b, "gt", a), same)
        return build.select(better, b, a), build.select(better, b_at, a_at)

    scalars = [Type(x.type.dtype), Type(DType.I64)] * 2
    op = Window(
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
    """The number of elements, which must be static."""
    if not all(isinstance(size, int) for size in extents):
        raise ShapeError("the positions of the largest elements need sizes that are known")
    return prod(extents)  # type: ignore[arg-type]


def _column_major(where: Node, extents: tuple[object, ...]) -> Node:
    """Converts row-major flat indices to column-major ones."""
    flat: Node | None = None
    step, inner = 1, prod_of(extents)
    for size in extents:
        assert isinstance(size, int)
        inner //= max(size, 1)
        digit = build.apply1("rem", build.div(where, inner), size)
        part = build.mul(digit, step)
        flat = part if flat is None else build.add(flat, part)
        step *= size
    assert flat is not None
    return flat


@operator("GlobalMaxPool", since=1)
def global_max_pool(call: OperatorCall) -> Node:
    """Operator sets 1 and 22."""
    return build.apply1("global_max_pool", call[0])


@operator("MaxUnpool", since=9)
def max_unpool(call: OperatorCall) -> Node:
    """Operator sets 9, 11 and 22: writes each element at its flat index into zeros of the size
    before pooling.

    With `output_shape` the result is then zero-padded or cropped to that shape.
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
    op = scatter.Scatter(
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
        combine="assign",
    )
    zeros = build.full(0, (count,), x.type.dtype)
    filled = Node.of(op, zeros, build.reshape(where, (-1, 1)), build.reshape(x, (-1,)))
    unpooled = build.reshape(filled, shape)
    wanted = call.ints(2)
    if wanted is None:
        return unpooled
    return build.pad(
        unpooled, 0, [0] * (rank + 2), [new - old for new, old in zip(wanted, shape, strict=True)]
    )
