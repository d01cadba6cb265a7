"""Short names of operations, types and values for the report."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import numpy as np

from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac_sdk.dtypes import DType

LONG = 60  # characters of an attribute that are shown


def types_of(node: Node) -> str:
    """The type of a node's results, as in a spec."""
    return ", ".join(map(str, node.results))


def attributes_of(node: Node) -> str:
    """The attributes of a node's operation that are not their defaults, on one line; an array is
    shown by its type, and a graph by its name.
    """
    shown = []
    for field in fields(node.op):
        value = getattr(node.op, field.name)
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        if isinstance(value, np.ndarray) or type(value) is not type(default) or value != default:
            shown.append(f"{field.name}={_value(value)}")
    return " ".join(shown)


def _value(value: Any) -> str:
    match value:
        case np.ndarray():
            if value.size == 1:
                return repr(value.reshape(-1)[0].item())
            return f"<{Type(DType.of(value.dtype), value.shape)}>"
        case Graph():
            return f"graph {value.name}"
        case tuple():
            inner = f"({', '.join(map(_value, value))})"
            return inner if len(inner) <= LONG else f"{inner[:LONG]}…)"
        case DType():
            return value.value
    text = str(value)
    return text if len(text) <= LONG else f"{text[:LONG]}…"


def named_by_path(graph: Graph) -> dict[Node, str]:
    """A name for every node of a graph that passes rarely change: its path and, of several nodes
    with one path, its operation; of several of those, a number in order.
    """
    nodes = graph.order
    paths: dict[str, int] = {}
    for node in nodes:
        paths[node.name] = paths.get(node.name, 0) + 1
    names: dict[Node, str] = {}
    seen: dict[str, int] = {}
    for node in nodes:
        name = node.name
        if paths[name] > 1 or not name:
            name = f"{name}:{node.op.mnemonic}"
        seen[name] = seen.get(name, 0) + 1
        names[node] = name if seen[name] == 1 else f"{name}~{seen[name]}"
    return names
