"""Where new nodes come from: the node that they are the change of, or stand for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TypeVar

from xlac.ir.graph import Node
from xlac_sdk.source import Origin

Part = TypeVar("Part", Node, "Node | None")


def stamped(parts: Sequence[Part], origin: Origin | None, known: Collection[Node]) -> list[Part]:
    """Nodes, and what is new below them, with an origin. What has one, or is `known`, is as it was,
    and so is all that it reads: however deep that is, it is not gone through.
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


def blamed(
    changes: Sequence[Node | None], node: Node, known: Sequence[Node | None] = ()
) -> list[Node | None]:
    """Changes whose new nodes have the origin of the node that they are the change of; `known` are
    those that they are made of.
    """
    given = {node, *node.inputs, *(one for one in known if one is not None)}
    return stamped(changes, node.origin, given)
