"""Where new nodes come from: the node that they are the change of."""

from __future__ import annotations

from dataclasses import replace

from xlac.ir.graph import Node, walk


def blamed(change: Node | None, node: Node) -> Node | None:
    """A change whose new nodes have the origin of the node that they are the change of."""
    if change is None or node.origin is None:
        return change
    new: dict[Node, Node] = {}
    known = {node, *node.inputs}
    for inner in walk([change], known):
        inputs = tuple(new.get(i, i) for i in inner.inputs)
        bare = inner.origin is None and inner.inputs
        if bare or inputs != inner.inputs:
            new[inner] = replace(inner, inputs=inputs, origin=inner.origin or node.origin)
    return new.get(change, change)
