"""A canonical text of what a group computes, and its digest, which names the group: the same in
every process, on every machine, and for every group of equal structure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from xlac.fusion.group import Group, open_sizes
from xlac.ir.dims import symbols
from xlac.ir.graph import Graph, Node, walk
from xlac.ir.op import attributes
from xlac.ops.tensor.leaf import Const, Param

INLINE = 64  # elements up to which the values of a constant are part of a group's structure
LENGTH = 16  # hexadecimal digits, enough that collisions do not occur


def digest(group: Group) -> str:
    """The digest of a group's structure."""
    return "g" + hashlib.sha256(structure(group).encode()).hexdigest()[:LENGTH]


def structure(group: Group) -> str:
    """A canonical text of what a group computes: operations, attributes, types and edges; without
    names of the model, and of constants that kernels read only whether all elements are equal.
    Groups with equal text may share kernels.
    """
    number = {node: i for i, node in enumerate((*group.inputs, *group.nodes))}
    lines = [group.kind.value, str(number[group.anchor])]
    lines += [f"{_leaf(node)}: {_types(node)}" for node in group.inputs]
    lines += _nodes(group.nodes, number)
    lines.append(" ".join(str(number[node]) for node in group.outputs))
    for size in open_sizes(group):
        lines += [f"{s.name} {s.min} {s.max} {s.opt} {s.multiple_of}" for s in symbols(size)]
    return "\n".join(lines)


def _nodes(nodes: Iterable[Node], number: dict[Node, int]) -> list[str]:
    return [
        f"{_operation(node)} of {' '.join(str(number.get(i, -1)) for i in node.inputs)}: "
        f"{_types(node)}"
        for node in nodes
    ]


def _types(node: Node) -> str:
    return ", ".join(map(str, node.results))


def _leaf(node: Node) -> str:
    match node.op:
        case Const(value=value):
            flat = np.ascontiguousarray(value).reshape(-1)
            if value.size <= INLINE:
                return f"const {flat.tobytes().hex()}"
            return f"uniform {flat[:1].tobytes().hex()}" if (flat == flat[0]).all() else "const"
        case Param(kind=kind):
            return kind
    return "value"


def _operation(node: Node) -> str:
    if isinstance(node.op, Const) and node.op.value.size > INLINE:
        return f"const {_text(node.op.value)}"
    if isinstance(node.op, Const | Param):
        return _leaf(node)
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
        inner = [*_nodes(nodes, number), *(str(number[n]) for n in value.outputs.values())]
        return f"({'; '.join(inner)})"
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))})"
    return repr(value)
