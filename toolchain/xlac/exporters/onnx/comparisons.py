"""Exports comparisons and selections, in element types that runtimes compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlac.exporters.onnx.writer import OnnxWriter, rule
from xlac.ir.graph import Node
from xlac_sdk.dtypes import DType

WRAPPING = {
    DType.BF16: DType.F32,
    DType.I8: DType.I32,
    DType.I16: DType.I32,
    DType.U8: DType.I32,
    DType.U16: DType.I32,
    DType.U32: DType.I64,
    DType.U64: DType.I64,
}


ORDERED = WRAPPING | {DType.U64: DType.U64, DType.BOOL: DType.I32}
"""Types for divisions and comparisons, by element type: each represents all its values."""


CHOSEN: dict[DType, DType] = {k: v for k, v in WRAPPING.items() if k is not DType.U8}
"""Types for selections, by element type: runtimes select between few types."""


def within(
    w: OnnxWriter, dtype: DType, table: dict[DType, DType], *xs: str
) -> tuple[tuple[str, ...], Callable[[str], str]]:
    """Operands cast to the type that an operation is computed in, and a function that casts the
    result back.
    """
    to = table.get(dtype, dtype)
    if to is dtype:
        return xs, lambda r: r
    return tuple(w.cast(x, to) for x in xs), lambda r: w.cast(r, dtype)


COMPARE = {
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
    "eq": "Equal",
    "ne": "Equal",
}


def signed(w: OnnxWriter, x: str) -> str:
    """u64 as i64 in the same order."""
    return w.op("Add", w.cast(x, DType.I64), w.constant(np.iinfo(np.int64).min))


def below(w: OnnxWriter, x: str, y: str) -> str:
    """Where one u64 is less than another."""
    return w.op("Less", signed(w, x), signed(w, y))


@rule("compare")
def compare(w: OnnxWriter, node: Node, x: str, y: str) -> str:
    """Equal, Less, … with Not; numbers that ONNX does not compare are widened, u64 is mapped to
    i64.
    """
    direction: Any = getattr(node.op, "direction", "")
    dtype = node.inputs[0].type.dtype
    if dtype is DType.BOOL and direction in ("eq", "ne"):
        compared = w.op("Xor", x, y)
        return compared if direction == "ne" else w.op("Not", compared)
    if dtype is DType.U64:
        x, y = signed(w, x), signed(w, y)
    else:
        (x, y), _ = within(w, dtype, ORDERED, x, y)
    compared = w.op(COMPARE[direction], x, y)
    return w.op("Not", compared) if direction == "ne" else compared


@rule("select", "where")
def select(w: OnnxWriter, node: Node, condition: str, x: str, y: str) -> str:
    """Where; for booleans And and Or."""
    return chosen(w, condition, x, y, node.type.dtype)


def chosen(w: OnnxWriter, condition: str, x: str, y: str, dtype: DType) -> str:
    """x where the condition holds, else y."""
    if dtype is DType.BOOL:
        return w.op("Or", w.op("And", condition, x), w.op("And", w.op("Not", condition), y))
    (x, y), back = within(w, dtype, CHOSEN, x, y)
    return back(w.op("Where", condition, x, y))


@rule("barrier", "identity")
def same(w: OnnxWriter, node: Node, x: str) -> str:
    """Identity: ONNX has no operator that stops optimizers."""
    return w.op("Identity", x)
