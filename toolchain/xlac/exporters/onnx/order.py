"""Exports sorts by TopK, which is stable, from the least important key to the most important."""

from __future__ import annotations

from xlac.exporters.onnx.comparisons import signed
from xlac.exporters.onnx.writer import OnnxWriter, known, rule
from xlac.exporters.unsaid import Unsaid
from xlac.ir.graph import Node
from xlac.ops.reduction.order import Sort
from xlac_sdk.dtypes import DType

KEYS = {
    DType.F16: DType.F32, DType.BF16: DType.F32, DType.I8: DType.I32, DType.I16: DType.I32,
    DType.U8: DType.I32, DType.U16: DType.I32, DType.U32: DType.I64, DType.BOOL: DType.I32,
}  # fmt: skip


@rule("sort")
def sort(w: OnnxWriter, node: Node, *xs: str) -> list[str]:
    """TopK by each key, from the last to the first, which is a stable sort by several keys."""
    op = node.op
    assert isinstance(op, Sort)
    if op.body is not None:
        raise Unsaid("ONNX sorts by the order of numbers only")
    (count,) = known((node.inputs[0].shape[op.axis],), "sorting")
    kept = count if op.kept is None else op.kept
    if 0 in node.results[0].shape:
        ends = [w.constant([n]) for n in (0, kept, op.axis)]
        return [w.op("Slice", x, *ends) for x in xs]
    sorted_values = [*xs]
    types = [x.type.dtype for x in node.inputs]
    steps = [(key, nan) for key in reversed(range(op.keys)) for nan in passes(w, types[key])]
    for number, (key, nan) in enumerate(steps):  # NaNs come last, which takes a key of its own
        wanted = kept if number + 1 == len(steps) else count
        place = _places(w, sorted_values[key], types[key], nan, op, wanted)
        sorted_values = [
            _taken(w, x, place, op.axis, n.type.dtype)
            for x, n in zip(sorted_values, node.inputs, strict=True)
        ]
    return sorted_values


def passes(w: OnnxWriter, dtype: DType) -> tuple[bool, ...]:
    """The sorts for one key: by its value, then by whether it is a number."""
    return (False, True) if dtype.is_float else (False,)


def _places(w: OnnxWriter, x: str, dtype: DType, nan: bool, op: Sort, count: int) -> str:
    if nan:
        x, kind = (
            w.cast(
                w.op("IsNaN", x if dtype is not DType.BF16 else w.cast(x, DType.F32)), DType.I32
            ),
            DType.I32,
        )
    elif dtype is DType.U64:
        x, kind = signed(w, x), DType.I64
    else:
        kind = KEYS.get(dtype, dtype)
        x = w.cast(x, kind) if kind is not dtype else x
    if kind.is_float:
        x = w.op("Where", w.op("IsNaN", x), w.constant(0.0, kind), x)
    return w.many(
        "TopK", [x, w.constant([count])], 2, axis=op.axis, largest=int(op.descending), sorted=1
    )[1]


def _taken(w: OnnxWriter, x: str, place: str, axis: int, dtype: DType) -> str:
    return w.op("GatherElements", x, place, axis=axis)
