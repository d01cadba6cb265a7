"""Origins of new nodes, for messages: those of the node that they are derived from or replace."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TypeVar

from xlac.ir.graph import Node
from xlac_sdk.source import Origin

Part = TypeVar("Part", Node, "Node | None")


def with_origin(
    parts: Sequence[Part], origin: Origin | None, known: Collection[Node]
) -> list[Part]:
    """Nodes with an origin set on them and on the new nodes below them. A node that has an origin
    or is `known` is unchanged, and the walk ends there, so its cost is that of the new nodes.
    """
    if origin is None:
        return list(parts)
    new: dict[Node, Node] = {}
    seen = set(known)
    stack = [(part, False) for part in reversed(parts) if part is not None]
    while stack:
        node, ready = stack.pop()
        if ready:
            inputs = tuple(new.get(i, i) for i in node.inputs)
            new[node] = replace(node, inputs=inputs, origin=origin)
        elif node not in seen and node.origin is None and node.inputs:
            seen.add(node)
            stack.append((node, True))
            stack += [(i, False) for i in reversed(node.inputs) if i not in seen]
    return [part if part is None else new.get(part, part) for part in parts]


def with_node_origin(
    tangents: Sequence[Node | None], node: Node, known: Sequence[Node | None] = ()
) -> list[Node | None]:
    """Tangents or cotangents whose new nodes get the origin of `node`, whose rule made them from
    the nodes `known`.
    """
    given = {node, *node.inputs, *(one for one in known if one is not None)}
    return with_origin(tangents, node.origin, given)
