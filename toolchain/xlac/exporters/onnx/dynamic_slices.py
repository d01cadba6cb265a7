"""Exports slices with starts that are data, and updates of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlac.exporters.onnx.indexing import strides, whole, window
from xlac.exporters.onnx.writer import OnnxWriter, known, rule
from xlac.ir.graph import Node


def starts(
    w: OnnxWriter,
    node: Node,
    names: tuple[str, ...],
    nodes: tuple[Node, ...],
    sizes: Any,
    limits: Any,
) -> str:
    """The first index along each axis, clamped so that the slice lies inside, as a vector."""
    clamped = []
    for name, start, size, limit in zip(names, nodes, sizes, limits, strict=True):
        at = w.op("Reshape", whole(w, name, start.type.dtype), w.constant([1]))
        room = w.size(limit - size)
        clamped.append(w.least(w.most(at, w.constant([0])), room))
    return w.op("Concat", *clamped, axis=0)


@rule("dyn_slice")
def dyn_slice(w: OnnxWriter, node: Node, x: str, *first: str) -> str:
    """Slice, with clamped starts."""
    if not first:
        return w.op("Identity", x)
    sizes = node.shape
    begin = starts(w, node, first, node.inputs[1:], sizes, node.inputs[0].shape)
    end = w.op("Add", begin, w.shape(sizes))
    return w.op("Slice", x, begin, end, w.constant(np.arange(len(first))))


@rule("dyn_update")
def dyn_update(w: OnnxWriter, node: Node, x: str, update: str, *first: str) -> str:
    """ScatterElements into the flattened tensor, with clamped starts."""
    if not first:
        return w.op("Identity", update)
    shape, sizes = known(node.shape, "dyn_update"), known(node.inputs[1].shape, "dyn_update")
    if 0 in sizes:
        return w.op("Identity", x)
    begin = starts(w, node, first, node.inputs[2:], sizes, shape)
    place = w.op(
        "ReduceSum", w.op("Mul", begin, w.constant(strides(shape))), w.constant([0]), keepdims=1
    )
    places = w.op(
        "Add", place, w.constant(window(shape, sizes, tuple(range(len(shape)))).reshape(-1))
    )
    updated = w.op(
        "ScatterElements",
        w.op("Reshape", x, w.constant([-1])),
        places,
        w.op("Reshape", update, w.constant([-1])),
        axis=0,
    )
    return w.reshape(updated, node.shape)
