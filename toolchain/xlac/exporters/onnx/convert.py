"""Conversions of element types: by value, and by bits."""

from __future__ import annotations

import numpy as np

from xlac.exporters.onnx.comparisons import chosen
from xlac.exporters.onnx.writer import ELEMENT, OnnxWriter, known, rule
from xlac.ir.graph import Node
from xlac_sdk.dtypes import DType

BITCAST = 26  # the first operator set with BitCast


@rule("cast")
def cast(w: OnnxWriter, node: Node, x: str) -> str:
    """Cast, with corrections for our semantics: see `converted`."""
    return converted(w, x, node.inputs[0].type.dtype, node.type.dtype)


def converted(w: OnnxWriter, x: str, old: DType, new: DType) -> str:
    """A value in another element type: floats to integers saturate and NaN becomes 0, half
    precision goes through f32.
    """
    if old.is_half and new is not DType.F32:
        return x if old is new else converted(w, w.cast(x, DType.F32), DType.F32, new)
    if new.is_half and old is not DType.F32:
        return w.cast(converted(w, x, old, DType.F32), new)
    if new is DType.BOOL and old.is_float:
        return w.op("Not", w.op("Equal", x, w.constant(0.0, old)))
    if old.is_float and new.is_integer:
        return saturated(w, x, old, new)
    return w.cast(x, new)


def saturated(w: OnnxWriter, x: str, old: DType, new: DType) -> str:
    """Floats to integers: out of range becomes the nearest limit, NaN 0."""
    info = np.iinfo(new.numpy)
    above, least = 2.0 ** (new.bits - new.is_signed), float(info.min)
    high = w.op("GreaterOrEqual", x, w.constant(above, old))
    low = w.op("Less", x, w.constant(least, old))
    inside = w.op(
        "Where", w.op("Or", w.op("Or", high, low), w.op("IsNaN", x)), w.constant(0.0, old), x
    )
    converted = w.op("Cast", inside, to=ELEMENT[new])
    converted = chosen(w, high, w.constant(info.max, new), converted, new)
    return chosen(w, low, w.constant(info.min, new), converted, new)


@rule("bitcast")
def bitcast(w: OnnxWriter, node: Node, x: str) -> str:
    """BitCast for equal widths; otherwise integers are split or assembled by shifts."""
    old, new = node.inputs[0].type.dtype, node.type.dtype
    if 0 in node.shape:
        return w.constant(np.empty(known(node.shape, "nothing")), new)
    w.opset = max(w.opset, BITCAST)
    if old.bits == new.bits:
        return w.op("BitCast", x, to=ELEMENT[new])
    parts = max(old.bits, new.bits) // min(old.bits, new.bits)
    shifts = w.constant(np.arange(parts) * min(old.bits, new.bits), DType.U64)
    narrow, wide = (DType(f"u{bits}") for bits in sorted((old.bits, new.bits)))
    if new.bits < old.bits:
        raw = w.cast(w.op("BitCast", x, to=ELEMENT[wide]), DType.U64)
        cut = w.op("BitShift", w.op("Unsqueeze", raw, w.constant([-1])), shifts, direction="RIGHT")
        return w.op("BitCast", w.cast(cut, narrow), to=ELEMENT[new])
    raw = w.cast(w.op("BitCast", x, to=ELEMENT[narrow]), DType.U64)
    # sums of disjoint bits
    moved = w.cast(w.op("BitShift", raw, shifts, direction="LEFT"), DType.I64)
    whole = w.op("ReduceSum", moved, w.constant([-1]), keepdims=0)
    return w.op("BitCast", w.cast(whole, wide), to=ELEMENT[new])
