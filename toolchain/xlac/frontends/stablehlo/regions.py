"""Recognizes what scalar regions compute: named combinations."""

from __future__ import annotations

import numpy as np

from xlac.ir.graph import Graph, Node
from xlac.ir.op import Op
from xlac.ops.numeric import COMBINE, identity
from xlac.ops.scalar import arithmetic
from xlac.ops.scalar.minifloat_codes import DecodeFloat, EncodeFloat
from xlac.ops.tensor.leaf import Const

COMMUTATIVE: dict[type[Op], str] = {
    arithmetic.Add: "add",
    arithmetic.Mul: "mul",
    arithmetic.Max: "max",
    arithmetic.Min: "min",
    arithmetic.And: "and",
    arithmetic.Or: "or",
    arithmetic.Xor: "xor",
}


def through(node: Node) -> Node:
    """Looks through the encoding of a minifloat: the node with its numbers."""
    return node.inputs[0] if isinstance(node.op, EncodeFloat | DecodeFloat) else node


def monoid(body: Graph) -> str:
    """The name of the combination that a body of (x, y) computes, or one of (x0, …, y0, …) part by
    part; "" for others.

    For minifloats it is the combination of the decoded numbers.
    """
    half = len(body.inputs) // 2
    outputs = list(body.outputs.values())
    if len(outputs) != half or len(body.inputs) != 2 * half:
        return ""
    names = set()
    for number, output in enumerate(outputs):
        combined = through(output)
        pair = {body.inputs[number], body.inputs[half + number]}
        if {through(i) for i in combined.inputs} != pair or len(combined.inputs) != 2:
            return ""
        names.add(COMMUTATIVE.get(type(combined.op), ""))
    (name,) = names if len(names) == 1 else ("",)
    return name if name == "add" or half == 1 else ""


def replaced(body: Graph) -> bool:
    """Whether a body of (x0, …, y0, …) returns (y0, …), so that updates replace elements."""
    half = len(body.inputs) // 2
    return tuple(body.outputs.values()) == body.inputs[half:]


def is_identity(node: Node, combine: str) -> bool:
    """Whether a scalar is a constant and the identity of the combination."""
    op = node.op
    if not isinstance(op, Const) or op.uniform is None:
        return False
    dtype = node.type.dtype
    wanted = np.asarray(identity(combine, dtype), dtype.compute.numpy)
    number = np.asarray(op.uniform, dtype.compute.numpy)
    # -0 too, since the sum has at least one other element
    return bool(number == wanted) and combine in COMBINE
