"""Exports reductions, windows and running combinations."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlac.exporters.onnx.comparisons import ORDERED, WRAPPING, chosen, within
from xlac.exporters.onnx.views import gaps, padded
from xlac.exporters.onnx.writer import OnnxWriter, known, rule
from xlac.exporters.unsaid import Unsaid
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.ops import numeric
from xlac.ops.scalar.comparison import Compare, Select
from xlac.ops.scalar.convert import Cast
from xlac.ops.scalar.primitive import Scalar
from xlac.ops.tensor.leaf import Const, Param
from xlac_sdk.dtypes import DType

REDUCE = {"add": "ReduceSum", "mul": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}
COMBINE = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}
HALVES = {DType.F16: DType.F32, DType.BF16: DType.F32}
MOST_TAPS = 4096  # of a window along one axis; each is a slice


def kind_of(dtype: DType, combine: str) -> dict[DType, DType]:
    """The type in which elements are combined: f32 for sums of half precision, supported types for
    integers.
    """
    return HALVES | (ORDERED if combine in ("max", "min") else WRAPPING)


def combined_type(dtype: DType, combine: str) -> DType:
    """The type in which an operator of ONNX combines elements of a type."""
    if combine in COMBINE:
        return kind_of(dtype, combine).get(dtype, dtype)
    return DType.I32 if dtype is DType.BOOL else dtype


@rule("reduce")
def reduce(w: OnnxWriter, node: Node, *xs: str) -> str | list[str]:
    """ReduceSum, …; bits and booleans by other operators, with NaN handled where runtimes
    differ.
    """
    op: Any = node.op
    if op.body is not None:
        return folded(w, node, xs)
    (x,), source = xs, node.inputs[0]
    if not op.axes:
        return w.op("Identity", x)
    if op.combine in ("and", "or", "xor"):
        return logical(w, node, x)
    dtype = source.type.dtype
    if 0 in source.shape:
        return w.op(
            "Expand", w.constant(numeric.identity(op.combine, dtype), dtype), w.shape(node.shape)
        )
    (x,), back = within(w, dtype, kind_of(dtype, op.combine), x)
    reduced = back(w.op(REDUCE[op.combine], x, w.constant(op.axes), keepdims=0))
    if not dtype.is_float or op.combine not in ("max", "min"):
        return reduced
    # runtimes differ on NaN
    some = w.op("ReduceMax", w.cast(w.op("IsNaN", x), DType.I32), w.constant(op.axes), keepdims=0)
    return chosen(w, w.cast(some, DType.BOOL), w.constant(np.nan, dtype), reduced, dtype)


def logical(w: OnnxWriter, node: Node, x: str) -> str:
    """Bools as sums and extremes of integers; bits by repeatedly combining halves of the axis."""
    op: Any = node.op
    dtype = node.type.dtype
    if 0 in node.inputs[0].shape:
        return w.op(
            "Expand", w.constant(numeric.identity(op.combine, dtype), dtype), w.shape(node.shape)
        )
    if dtype is DType.BOOL:
        number = w.cast(x, DType.I32)
        if op.combine == "xor":
            odd = w.op(
                "Mod",
                w.op("ReduceSum", number, w.constant(op.axes), keepdims=0),
                w.constant(2, DType.I32),
            )
            return w.cast(odd, DType.BOOL)
        return w.cast(
            w.op(
                "ReduceMin" if op.combine == "and" else "ReduceMax",
                number,
                w.constant(op.axes),
                keepdims=0,
            ),
            DType.BOOL,
        )
    shape = known(node.inputs[0].shape, "bits of an axis")
    rest = [a for a in range(len(shape)) if a not in op.axes]
    count = int(np.prod([shape[a] for a in op.axes], dtype=np.int64))
    line = w.reshape(w.transpose(x, [*op.axes, *rest]), (count, *(shape[a] for a in rest)))
    name = {"and": "BitwiseAnd", "or": "BitwiseOr", "xor": "BitwiseXor"}[op.combine]
    while count > 1:
        half, left = divmod(count, 2)
        parts = [
            w.op("Slice", line, w.constant([a]), w.constant([b]), w.constant([0]))
            for a, b in ((0, half), (half, 2 * half))
        ]
        reduced = w.op(name, *parts)
        if left:
            reduced = w.op(
                "Concat",
                reduced,
                w.op("Slice", line, w.constant([count - 1]), w.constant([count]), w.constant([0])),
                axis=0,
            )
        line, count = reduced, half + left
    return w.reshape(line, node.shape)


# ---- bodies ----------------------------------------------------------------------------------


def elementwise(body: Graph) -> bool:
    """Whether a body on scalars may be applied to whole tensors."""
    return all(
        isinstance(node.op, Const | Param | Scalar | Compare | Select | Cast)
        for node in body.nodes()
    )


def folded(w: OnnxWriter, node: Node, operands: tuple[str, ...]) -> list[str]:
    """A reduction with a body: combines the slices of the reduced axes one by one, for all
    positions at once.
    """
    op: Any = node.op
    half = len(operands) // 2
    if not elementwise(op.body):
        raise Unsaid("its body is more than operations on single elements")
    shape = known(node.inputs[0].shape, "a reduction by a body")
    rest = [a for a in range(len(shape)) if a not in op.axes]
    count = int(np.prod([shape[a] for a in op.axes], dtype=np.int64))
    kept = tuple(shape[a] for a in rest)
    lines = [w.reshape(w.transpose(x, [*op.axes, *rest]), (count, *kept)) for x in operands[:half]]
    state = [w.op("Expand", init, w.shape(kept)) for init in operands[half:]]
    types = [Type(n.type.dtype, kept) for n in node.inputs[:half]]
    names = [[w.fresh(f"{w.hint}.{what}{i}") for i in range(half)] for what in ("so_far", "slice")]
    inputs = [*zip(names[0], types, strict=True), *zip(names[1], types, strict=True)]
    graph = w.subgraph(f"{w.hint}.body", inputs, lambda: w.inline(op.body, [*names[0], *names[1]]))
    return w.many("Scan", [*state, *lines], half, body=graph, num_scan_inputs=half)


# ---- windows ---------------------------------------------------------------------------------


@rule("window")
def window(w: OnnxWriter, node: Node, *xs: str) -> str:
    """One axis after another: combines strided slices, one for each position in the window."""
    op: Any = node.op
    if op.body is not None:
        raise Unsaid("ONNX pools by sum, product and extremes only")
    (x,) = xs
    dtype = node.type.dtype
    shape, result = node.inputs[0].shape, node.shape
    if not shape:
        return w.op("Identity", x)
    kind = combined_type(dtype, op.combine)
    if kind is not dtype:
        x = w.cast(x, kind)
    filler = numeric.identity(
        op.combine, dtype if dtype is DType.BOOL else kind if dtype.is_float else dtype
    )
    value = w.constant(filler, kind)
    for axis in range(len(shape)):
        if moves(op, axis):
            known((shape[axis],), "a window")
            x, shape = _along(
                w, x, shape, op, axis, known((result[axis],), "a window")[0], value, kind, dtype
            )
    return w.cast(x, dtype) if kind is not dtype else w.op("Identity", x)


def moves(op: Any, axis: int) -> bool:
    """Whether a window has any effect along an axis."""
    return (
        op.window[axis],
        op.strides[axis],
        op.base_dilation[axis],
        op.low[axis],
        op.high[axis],
    ) != (1, 1, 1, 0, 0)


def _along(
    w: OnnxWriter,
    x: str,
    shape: Any,
    op: Any,
    axis: int,
    places: int,
    value: str,
    kind: DType,
    dtype: DType,
) -> tuple[str, Any]:
    between = op.base_dilation[axis] - 1
    if between and shape[axis]:
        x, shape = gaps(w, x, shape, axis, between, value, kind)
    low, high = op.low[axis], op.high[axis]
    if max(low, 0) or max(high, 0):
        ends = [0] * (2 * len(shape))
        ends[axis], ends[len(shape) + axis] = max(low, 0), max(high, 0)
        x = padded(w, x, w.constant(ends), value, kind)
    first = max(0, -low)
    taps = op.window[axis]
    grown = (*shape[:axis], places, *shape[axis + 1 :])
    if places == 0:
        return w.op("Expand", value, w.shape(grown)), grown
    if taps > MOST_TAPS:
        raise Unsaid(f"a window of {taps} elements along one axis")
    partial = ""
    for tap in range(taps):
        begin = first + tap * op.window_dilation[axis]
        end = begin + (places - 1) * op.strides[axis] + 1
        part = w.op(
            "Slice",
            x,
            w.constant([begin]),
            w.constant([end]),
            w.constant([axis]),
            w.constant([op.strides[axis]]),
        )
        partial = part if not partial else combined(w, op.combine, partial, part, kind, dtype)
    return partial, grown


def combined(w: OnnxWriter, combine: str, a: str, b: str, kind: DType, dtype: DType) -> str:
    """Combines two operands; bools are 0 and 1 here."""
    if kind is DType.I64 and combine in ("max", "min"):
        return w.most(a, b) if combine == "max" else w.least(a, b)
    if combine in COMBINE:
        return w.op(COMBINE[combine], a, b)
    if dtype is DType.BOOL:
        operator = {"and": "Min", "or": "Max"}.get(combine)
        return (
            w.op(operator, a, b)
            if operator
            else w.op("Mod", w.op("Add", a, b), w.constant(2, kind))
        )
    return w.op(f"Bitwise{combine.capitalize()}", a, b)


@rule("cumulative")
def cumulative(w: OnnxWriter, node: Node, x: str) -> str:
    """Sums by CumSum; other combinations by doubling distances."""
    op: Any = node.op
    dtype = node.type.dtype
    shape = node.shape
    kind = combined_type(dtype, op.combine)
    x = w.cast(x, kind) if kind is not dtype else x
    if op.combine == "add":
        sums = w.op(
            "CumSum", x, w.constant(op.axis), exclusive=int(op.exclusive), reverse=int(op.reverse)
        )
        return w.cast(sums, dtype) if kind is not dtype else sums
    (count,) = known((shape[op.axis],), f"running {op.combine}")
    filler = w.constant(numeric.identity(op.combine, dtype), kind)
    if op.exclusive and count:
        x = _moved(w, x, 1, op, count, len(shape), filler, kind)
    reach = 1
    while reach < count:
        x = combined(
            w, op.combine, x, _moved(w, x, reach, op, count, len(shape), filler, kind), kind, dtype
        )
        reach *= 2
    return w.cast(x, dtype) if kind is not dtype else w.op("Identity", x)


def _moved(
    w: OnnxWriter, x: str, by: int, op: Any, count: int, rank: int, filler: str, kind: DType
) -> str:
    """x shifted along the axis in the direction of the running combination, filled with the
    identity.
    """
    ends = [0] * (2 * rank)
    ends[(rank if op.reverse else 0) + op.axis] = by
    longer = padded(w, x, w.constant(ends), filler, kind)
    begin = by if op.reverse else 0
    return w.op(
        "Slice", longer, w.constant([begin]), w.constant([begin + count]), w.constant([op.axis])
    )
