"""Exports matrix products and convolutions."""

from __future__ import annotations

from typing import Any

from xlac.exporters.onnx.convert import converted
from xlac.exporters.onnx.views import gaps, padded
from xlac.exporters.onnx.writer import OnnxWriter, known, rule
from xlac.exporters.unsaid import Unsaid
from xlac.ir.dims import Dim, volume
from xlac.ir.graph import Node
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType

PRODUCTS = {
    DType.BF16: DType.F32, DType.F16: DType.F32, DType.I8: DType.I32, DType.I16: DType.I32,
    DType.U8: DType.I32, DType.U16: DType.I32, DType.U32: DType.I64, DType.U64: DType.I64,
}  # fmt: skip
"""Types for sums of products, by element type: f32 for half precision, wider integers that wrap
alike.
"""


@rule("dot")
def dot(w: OnnxWriter, node: Node, x: str, y: str) -> str:
    """MatMul of (batch, rows, depth) and (batch, depth, columns)."""
    op = node.op
    assert isinstance(op, Dot)
    new = node.type.dtype
    kind = PRODUCTS.get(new, new)
    if kind is DType.BOOL:
        raise Unsaid("products of bools")
    left, right = node.inputs
    x, y = converted(w, x, left.type.dtype, kind), converted(w, y, right.type.dtype, kind)
    rows = [a for a in range(left.type.rank) if a not in (*op.batch_lhs, *op.contract_lhs)]
    columns = [a for a in range(right.type.rank) if a not in (*op.batch_rhs, *op.contract_rhs)]
    a, b = [left.shape[i] for i in op.batch_lhs], [left.shape[i] for i in op.contract_lhs]
    m, n = [left.shape[i] for i in rows], [right.shape[i] for i in columns]
    x = transposed_to(
        w,
        x,
        [*op.batch_lhs, *rows, *op.contract_lhs],
        left,
        [*a, volume(tuple(m)), volume(tuple(b))],
    )
    y = transposed_to(
        w,
        y,
        [*op.batch_rhs, *op.contract_rhs, *columns],
        right,
        [*a, volume(tuple(b)), volume(tuple(n))],
    )
    if 0 in b:
        return w.op("Expand", w.constant(0, new), w.shape(node.shape))
    product = w.op("MatMul", x, y)
    if len(m) != 1 or len(n) != 1:
        product = w.reshape(product, node.shape)
    return converted(w, product, kind, new) if kind is not new else product


def transposed_to(w: OnnxWriter, x: str, order: list[int], node: Node, shape: list[Dim]) -> str:
    """Transposed, then reshaped to `shape` where that differs."""
    x = w.transpose(x, order)
    return x if [node.shape[a] for a in order] == shape else w.reshape(x, tuple(shape))


@rule("conv")
def conv(w: OnnxWriter, node: Node, x: str, kernel: str) -> str:
    """Conv on (batch, channels, space) in floats; integers are converted to f64, which represents
    their sums exactly up to 2**53.
    """
    op = node.op
    assert isinstance(op, Conv)
    new = node.type.dtype
    kind = DType.F32 if new.is_half else new if new.is_float else DType.F64
    data, weight = node.inputs
    if data.type.rank == 2:
        return alone(w, node, x, kernel, kind)
    spots, ends = op.layout[0], op.layout[2]
    space = [c for c in spots if c not in "NC"]
    shape: Any = (
        data.shape[spots.index("N")],
        *known(tuple(data.shape[spots.index(c)] for c in ("C", *space)), "a convolution"),
    )
    x = w.transpose(
        converted(w, x, data.type.dtype, kind), [spots.index(c) for c in ("N", "C", *space)]
    )
    kernel = w.transpose(
        converted(w, kernel, weight.type.dtype, kind),
        [op.layout[1].index(c) for c in ("O", "I", *space)],
    )
    taps = known(
        tuple(weight.shape[op.layout[1].index(c)] for c in ("O", "I", *space)), "a convolution"
    )
    zero = w.constant(0, kind)
    if 0 in (*shape, *taps, *node.shape):
        return w.op("Expand", w.constant(0, new), w.shape(node.shape))
    for axis, by in enumerate(op.lhs_dilation):
        if by > 1:
            x, shape = gaps(w, x, shape, axis + 2, by - 1, zero, kind)
    x, pads, shape = bordered(w, x, shape, op, zero, kind)
    given = {
        "strides": list(op.strides),
        "dilations": list(op.rhs_dilation),
        "pads": pads,
        "kernel_shape": list(taps[2:]),
    }
    product = batched(w, x, kernel, shape, taps, op, given)
    result = ("N", "C", *space)
    product = w.transpose(product, [result.index(c) for c in ends])
    if new.is_integer:
        product = w.cast(product, DType.I64)
        return w.cast(product, new) if new is not DType.I64 else product
    return w.cast(product, new) if kind is not new else product


def alone(w: OnnxWriter, node: Node, x: str, kernel: str, kind: DType) -> str:
    """A convolution without spatial axes, as one over an axis of one element."""
    op, new = node.op, node.type.dtype
    assert isinstance(op, Conv)
    data, weight = node.inputs
    x = w.transpose(converted(w, x, data.type.dtype, kind), [op.layout[0].index(c) for c in "NC"])
    kernel = w.transpose(
        converted(w, kernel, weight.type.dtype, kind), [op.layout[1].index(c) for c in "OI"]
    )
    last = w.constant([-1])
    shape = known(tuple(data.shape[op.layout[0].index(c)] for c in "NC"), "a convolution")
    taps = known(tuple(weight.shape[op.layout[1].index(c)] for c in "OI"), "a convolution")
    result = batched(
        w, w.op("Unsqueeze", x, last), w.op("Unsqueeze", kernel, last), shape, taps, op, {}
    )
    result = w.transpose(w.op("Squeeze", result, last), ["NC".index(c) for c in op.layout[2]])
    return w.cast(result, new) if kind is not new else result


def bordered(
    w: OnnxWriter, x: str, shape: Any, op: Conv, zero: str, kind: DType
) -> tuple[str, list[int], Any]:
    """x cropped where padding is negative, and the remaining padding."""
    low, high = list(op.low), list(op.high)
    for axis, (before, after) in enumerate(zip(low, high, strict=True), 2):
        if before < 0 or after < 0:
            if before > 0 or after > 0:  # padding may be removed again by cropping at the other end
                ends = [0] * (2 * len(shape))
                ends[axis], ends[len(shape) + axis] = max(before, 0), max(after, 0)
                x = padded(w, x, w.constant(ends), zero, kind)
                shape = (
                    *shape[:axis],
                    shape[axis] + max(before, 0) + max(after, 0),
                    *shape[axis + 1 :],
                )
            start, stop = max(0, -before), shape[axis] - max(0, -after)
            x = w.op("Slice", x, w.constant([start]), w.constant([stop]), w.constant([axis]))
            shape = (*shape[:axis], stop - start, *shape[axis + 1 :])
            low[axis - 2] = high[axis - 2] = 0
    return x, [*low, *high], shape


def batched(
    w: OnnxWriter, x: str, kernel: str, shape: Any, taps: Any, op: Conv, given: dict[str, Any]
) -> str:
    """The convolution; with batch groups, each part of the batch is convolved with its part of the
    filters.
    """
    if op.batch_groups == 1:
        return w.op("Conv", x, kernel, group=op.feature_groups, **given)
    parts, filters = (
        known((shape[0],), "groups of a batch")[0] // op.batch_groups,
        taps[0] // op.batch_groups,
    )
    results = []
    for group in range(op.batch_groups):
        part = w.op(
            "Slice",
            x,
            w.constant([group * parts]),
            w.constant([(group + 1) * parts]),
            w.constant([0]),
        )
        some = w.op(
            "Slice",
            kernel,
            w.constant([group * filters]),
            w.constant([(group + 1) * filters]),
            w.constant([0]),
        )
        results.append(w.op("Conv", part, some, group=op.feature_groups, **given))
    return w.op("Concat", *results, axis=1)
