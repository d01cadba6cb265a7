"""Chains of reshapes and transpositions, rewritten as one view of the value beneath them."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from xlac.integrations.simplify.values import ValueFacts
from xlac.ir.dims import Shape, Sym, bounds
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops.tensor.view import Reshape, Transpose

VIEWS = ("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
SHAPED = 5  # the first operator set in which Reshape takes its shape as an input


def beneath(values: ValueFacts, node: Any, opset: int) -> Node | None:
    """The value that a node is a single reshape or transposition of, in the optimized graph."""
    value = values.nodes.get(node.output[0])
    if (
        node.op_type not in VIEWS
        or node.domain not in ("", "ai.onnx")
        or opset < SHAPED
        or value is None
        or not isinstance(value.op, Reshape | Transpose)
    ):
        return None
    return value.inputs[0]


def rewritten(values: ValueFacts, node: Any, base: str) -> tuple[Any, Array | None] | None:
    """The node as a view of `base`, and its constant shape; None where ONNX's Reshape cannot
    express it.
    """
    value = values.nodes[node.output[0]]
    name = [node.output[0]]
    if isinstance(value.op, Transpose):
        return helper.make_node(
            "Transpose", [base], name, name=node.name, perm=list(value.op.perm)
        ), None
    shape = constant_shape(value.inputs[0].shape, value.shape)
    if shape is None:
        return None
    return helper.make_node("Reshape", [base, ""], name, name=node.name), shape


def constant_shape(old: Shape, new: Shape) -> Array | None:
    """The constant operand of Reshape for the shape `new`: 0 copies an open axis, -1 stands for
    another; None where these do not suffice.
    """
    if any(size == 0 for size in new):
        return None
    entries = [
        size if not isinstance(size, Sym) else 0 if axis < len(old) and old[axis] == size else -1
        for axis, size in enumerate(new)
    ]
    # -1 is ambiguous where a copied axis may be empty
    copied = [
        size for size, how in zip(new, entries, strict=True) if isinstance(size, Sym) and not how
    ]
    unclear = -1 in entries and any(bounds(size)[0] < 1 for size in copied)
    return np.array(entries, np.int64) if entries.count(-1) <= 1 and not unclear else None
