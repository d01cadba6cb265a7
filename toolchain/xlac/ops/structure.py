"""Operations as text: equal for nodes that compute alike, without names of the model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from xlac.ir.graph import Graph, Node, walk
from xlac.ir.op import attributes
from xlac.ops.tensor.leaf import Const, Param

INLINE = 64  # elements up to which the values of a constant are part of a group's structure
DEPTH = 3  # operations before a value that are part of its name
LENGTH = 16  # hexadecimal digits of a digest, enough that collisions do not occur


def digest_of(*texts: str) -> str:
    """A short digest of some texts."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:LENGTH]


def made(node: Node, depth: int = DEPTH) -> str:
    """A digest of a value's operation and of those before it, `depth` of them in a row."""
    own = described(node)
    return digest_of(own, *(made(i, depth - 1) for i in node.inputs)) if depth else own


def described(node: Node) -> str:
    """A node's operation, or what is known of a value that is given, and its types."""
    short = leaf(node) if isinstance(node.op, Const | Param) else operation(node)
    return f"{short}: {types(node)}"


def nodes_text(nodes: Iterable[Node], number: dict[Node, int]) -> list[str]:
    """A line for each node, in which `number` stands for its operands."""
    return [
        f"{operation(node)} of {' '.join(str(number.get(i, -1)) for i in node.inputs)}: "
        f"{types(node)}"
        for node in nodes
    ]


def types(node: Node) -> str:
    """The types of a node's results."""
    return ", ".join(map(str, node.results))


def leaf(node: Node) -> str:
    """What is known of a value when code that reads it is written: of constants their elements, if
    they are few or equal.
    """
    match node.op:
        case Const(value=value):
            flat = np.ascontiguousarray(value).reshape(-1)
            if value.size <= INLINE:
                return f"const {flat.tobytes().hex()}"
            return f"uniform {flat[:1].tobytes().hex()}" if (flat == flat[0]).all() else "const"
        case Param(kind=kind):
            return kind
    return "value"


def operation(node: Node) -> str:
    """A node's operation with its attributes."""
    if isinstance(node.op, Const) and node.op.value.size > INLINE:
        return f"const {_text(node.op.value)}"
    if isinstance(node.op, Const | Param):
        return leaf(node)
    parts = [f"{name}={_text(value)}" for name, value in attributes(node.op).items()]
    return " ".join([node.op.mnemonic, *parts])


def _text(value: Any) -> str:
    """An attribute as text; bodies by their structure."""
    if isinstance(value, np.ndarray):
        kept = np.ascontiguousarray(value).tobytes()
        return f"{value.dtype}{value.shape}{hashlib.sha256(kept).hexdigest()}"
    if isinstance(value, Graph):
        nodes = list(walk((*value.inputs, *value.outputs.values())))
        number = {node: i for i, node in enumerate(nodes)}
        inner = [*nodes_text(nodes, number), *(str(number[n]) for n in value.outputs.values())]
        return f"({'; '.join(inner)})"
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))})"
    return repr(value)
