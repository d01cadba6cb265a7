"""Origins for the nodes that an importer makes between those it names, so that every message has a
place.
"""

from __future__ import annotations

from dataclasses import replace

from xlac.ir.graph import Graph, Node, map_bodies
from xlac_sdk.source import Origin


def spread(graph: Graph, around: Origin | None = None) -> Graph:
    """The graph with an origin for every node: its own, else that of the first node that reads it,
    else the name of the output that it is.

    Nodes of bodies without an origin get that of the operation that holds the body, `around`.
    Parameters keep their names. Returns the same graph where all nodes have an origin.
    """
    origins: dict[Node, Origin | None] = (
        {} if around else {node: Origin(name) for name, node in graph.outputs.items()}
    )
    for node in reversed(graph.order):
        own = origins[node] = node.origin or origins.get(node) or around
        for given in node.inputs:
            if given.origin is None:
                origins[given] = (
                    own  # in reverse order, so that the readers of a node come before it
                )
    new: dict[Node, Node] = {}
    for node in graph.order:
        name = (
            getattr(node.op, "name", "") if node.op.mnemonic == "param" and around is None else ""
        )
        new[node] = _placed(node, new, node.origin or Origin(name) if name else origins[node])
    outputs = {name: new[node] for name, node in graph.outputs.items()}
    inputs = tuple(new.get(node, node) for node in graph.inputs)
    return (
        graph
        if outputs == graph.outputs and inputs == graph.inputs
        else Graph(graph.name, inputs, outputs)
    )


def _placed(node: Node, new: dict[Node, Node], origin: Origin | None) -> Node:
    if node.op.bodies():
        node = map_bodies(node, lambda body: spread(body, origin))
    inputs = tuple(new[i] for i in node.inputs)
    if inputs != node.inputs:
        node = node.with_inputs(inputs)
    return (
        node
        if node.origin is origin or (node.op.mnemonic == "param" and node.origin)
        else replace(node, origin=origin)
    )


def unnamed(graph: Graph) -> Graph:
    """The graph without origins, bodies included, so that equal computations have equal texts."""
    new: dict[Node, Node] = {}
    for node in (*graph.inputs, *graph.order):
        bodies_unnamed = map_bodies(node, unnamed)
        inputs = tuple(new[given] for given in node.inputs)
        new[node] = Node(bodies_unnamed.op, inputs, node.types)
    outputs = {name: new[node] for name, node in graph.outputs.items()}
    return Graph("", tuple(new[node] for node in graph.inputs), outputs)
