"""Exports operations that move elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlac.exporters.onnx.convert import converted
from xlac.exporters.onnx.writer import OnnxWriter, known, rule
from xlac.exporters.unsaid import Unsaid
from xlac.ir.dims import Sym
from xlac.ir.graph import Node
from xlac_sdk.dtypes import DType


def nothing(w: OnnxWriter, node: Node) -> str:
    """A constant without elements."""
    return w.constant(np.empty(known(node.shape, "nothing")), node.type.dtype)


@rule("iota")
def iota(w: OnnxWriter, node: Node) -> str:
    """Range, then Expand to the other axes."""
    op: Any = node.op
    if 0 in op.shape:
        return nothing(w, node)
    size = w.op("Reshape", w.size(op.shape[op.axis]), w.constant(np.array([], np.int64)))
    count = converted(w, w.op("Range", w.constant(0), size, w.constant(1)), DType.I64, op.dtype)
    if len(op.shape) == 1:
        return count
    line = w.reshape(count, tuple(n if a == op.axis else 1 for a, n in enumerate(op.shape)))
    return w.op("Expand", line, w.shape(op.shape))


@rule("reshape")
def reshape(w: OnnxWriter, node: Node, x: str) -> str:
    """Reshape to the shape of the node."""
    return w.reshape(x, node.shape)


@rule("broadcast")
def broadcast(w: OnnxWriter, node: Node, x: str) -> str:
    """Expand, after Transpose and Reshape where axes are not aligned at the end."""
    op: Any = node.op
    if 0 in op.shape:
        return nothing(w, node)
    order = sorted(range(len(op.axes)), key=lambda i: op.axes[i])
    x = w.transpose(x, order)
    sizes = {axis: size for axis, size in zip(op.axes, node.inputs[0].shape, strict=True)}  # noqa: C416
    spread = tuple(sizes.get(a, 1) for a in range(len(op.shape)))
    if spread != node.inputs[0].shape and [*op.axes] != [
        *range(len(op.shape) - len(op.axes), len(op.shape))
    ]:
        x = w.reshape(x, spread)
    return w.op("Expand", x, w.shape(op.shape))


@rule("transpose")
def transpose(w: OnnxWriter, node: Node, x: str) -> str:
    """Transpose by the operation's permutation."""
    return w.transpose(x, node.op.perm)  # type: ignore[attr-defined]


@rule("slice")
def cut(w: OnnxWriter, node: Node, x: str) -> str:
    """Slice; one that counts down to the first element ends past it."""
    op: Any = node.op
    if not node.type.rank:
        return w.op("Identity", x)
    least = -(2**62)  # past the first element, for a negative step
    stops = tuple(
        least if step < 0 and stop == -1 else stop
        for stop, step in zip(op.stops, op.steps, strict=True)
    )
    return w.op(
        "Slice",
        x,
        w.shape(op.starts),
        w.shape(stops),
        w.constant(np.arange(len(stops))),
        w.constant(op.steps),
    )


@rule("pad")
def pad(w: OnnxWriter, node: Node, x: str, value: str) -> str:
    """Pad with a constant; interior padding by Reshape and Pad, negative padding by Slice."""
    op: Any = node.op
    shape, dtype = node.inputs[0].shape, node.type.dtype
    if not shape:
        return w.op("Identity", x)
    for axis, between in enumerate(op.interior):
        if between and shape[axis] != 0:
            x, shape = gaps(w, x, shape, axis, between, value, dtype)
    if not any((*op.low, *op.high)):
        return w.op("Identity", x)
    grown = [0 if isinstance(n, int) and n < 0 else n for n in (*op.low, *op.high)]
    if any(grown):
        x = padded(w, x, w.shape(grown), value, dtype)
    return cropped(w, x, op, shape)


def cropped(w: OnnxWriter, x: str, op: Any, shape: Any) -> str:
    """x cropped where padding is negative."""
    if not any(isinstance(n, int) and n < 0 for n in (*op.low, *op.high)):
        return x
    axes = range(len(shape))
    starts = [-n if isinstance(n, int) and n < 0 else 0 for n in op.low]
    whole = [
        n + max(0, a) + max(0, b) if isinstance(a, int) and isinstance(b, int) else n + a + b
        for n, a, b in zip(shape, op.low, op.high, strict=True)
    ]
    stops = [
        n + b if isinstance(b, int) and b < 0 else n for n, b in zip(whole, op.high, strict=True)
    ]
    return w.op("Slice", x, w.shape(starts), w.shape(stops), w.constant(np.array([*axes])))


def padded(w: OnnxWriter, x: str, pads: str, value: str, dtype: DType) -> str:
    """x padded. Bool and bf16 are converted to types that runtimes pad."""
    through = {
        DType.BOOL: DType.U8,
        DType.BF16: DType.F32,
        DType.I16: DType.I32,
        DType.U16: DType.I32,
    }.get(dtype, dtype)
    if through is dtype:
        return w.op("Pad", x, pads, value)
    return w.cast(w.op("Pad", w.cast(x, through), pads, w.cast(value, through)), dtype)


def gaps(
    w: OnnxWriter, x: str, shape: Any, axis: int, between: int, value: str, dtype: DType
) -> tuple[str, Any]:
    """x with values inserted between neighbours along an axis: each element gets a row, which is
    padded, and the last padding is removed.
    """
    if any(isinstance(n, Sym) for n in shape):
        raise Unsaid("interior padding of open sizes")
    rows = (*shape[: axis + 1], 1, *shape[axis + 1 :])
    ends = [0] * (2 * len(rows))
    ends[len(rows) + axis + 1] = between
    x = padded(w, w.reshape(x, rows), w.constant(ends), value, dtype)
    wide = shape[axis] * (between + 1)
    x = w.reshape(x, (*shape[:axis], wide, *shape[axis + 1 :]))
    x = w.op("Slice", x, w.constant([0]), w.constant([wide - between]), w.constant([axis]))
    return x, (*shape[:axis], wide - between, *shape[axis + 1 :])


@rule("concat")
def concat(w: OnnxWriter, node: Node, *xs: str) -> str:
    """Concat along the operation's axis."""
    return w.op("Concat", *xs, axis=node.op.axis)  # type: ignore[attr-defined]


@rule("dim_size")
def dim_size(w: OnnxWriter, node: Node, x: str) -> str:
    """Shape of one axis, as i32."""
    axis: int = node.op.axis  # type: ignore[attr-defined]
    size = w.op("Shape", x, start=axis, end=axis + 1)
    return w.cast(w.op("Reshape", size, w.constant(np.array([], np.int64))), DType.I32)


@rule("compact")
def compact(w: OnnxWriter, node: Node, mask: str) -> list[str]:
    """NonZero of the flattened mask, padded to a constant length, and the count."""
    bound = known((node.op.bound,), "positions")[0]  # type: ignore[attr-defined]
    size = known(node.inputs[0].shape, "positions of a mask")
    flat = w.op("Reshape", mask, w.constant([-1]))
    nonzero = w.op("Reshape", w.op("NonZero", flat), w.constant([-1]))
    rest = w.constant(np.full(bound, int(np.prod(size, dtype=np.int64)), np.int64))
    places = w.op(
        "Slice",
        w.op("Concat", nonzero, rest, axis=0),
        w.constant([0]),
        w.constant([bound]),
        w.constant([0]),
    )
    count = w.op("ReduceSum", w.cast(flat, DType.I64), w.constant([0]), keepdims=0)
    return [w.reshape(places, (bound,)), count]
