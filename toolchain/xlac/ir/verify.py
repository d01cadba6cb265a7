"""Checks that a graph is well formed. Run after every pass in tests."""

from __future__ import annotations

from collections.abc import Iterable

from xlac.ir.graph import Graph, Node
from xlac.ir.op import OPS, ShapeError, attributes


class GraphError(AssertionError):
    """A graph that no pass may produce: a bug of ours, never a user's mistake. `node` is the one at
    fault.
    """

    def __init__(self, message: str, node: Node | None = None) -> None:
        super().__init__(message)
        self.node = node


def verify(graph: Graph) -> None:
    """Raises GraphError naming the node.

    Types are what the operations infer from their inputs; results are picked from nodes that have
    several and from no others; operations are those of the table; parameters have names of their
    own; a graph's inputs are parameters, and a body sees nothing else. Nodes cannot form cycles,
    for their inputs come before them.
    """
    _graph(graph, set(), body=False)


def _graph(graph: Graph, known: set[Graph], body: bool) -> None:
    known.add(graph)
    names: dict[tuple[str, str], Node] = {}
    if not graph.outputs:
        raise GraphError(f"graph {graph.name!r} has no outputs")
    for node in _all(graph):
        where = f"{describe(node)} in {graph.name!r}"
        _types(node, where)
        if node.op.mnemonic == "param":
            about = attributes(node.op)
            outside = node not in graph.inputs
            if outside and body:
                raise GraphError(f"{where} is not an input of this body: a body is closed", node)
            if outside and about["kind"] == "input":
                raise GraphError(f"{where} is not among the inputs of the graph", node)
            key = ("weight" if about["kind"] == "weight" else "input", about["name"])
            if names.setdefault(key, node) is not node:
                raise GraphError(f"two parameters are called {about['name']!r}", node)
        for inner in node.op.bodies():
            if inner not in known:
                _graph(inner, known, body=True)
    for name, node in graph.outputs.items():
        if len(node.results) != 1:
            raise GraphError(
                f"output {name!r} is {describe(node)}, which has several results", node
            )


def _all(graph: Graph) -> Iterable[Node]:
    seen = set(graph.nodes())
    yield from graph.nodes()
    yield from (node for node in graph.inputs if node not in seen)
    for node in graph.inputs:
        if node.inputs:
            raise GraphError(f"input {describe(node)} of {graph.name!r} is not a parameter", node)


def _types(node: Node, where: str) -> None:
    if OPS.get(node.op.mnemonic) is not type(node.op):
        raise GraphError(
            f"{where}: {type(node.op).__name__} is not in the table of operations", node
        )
    picks = node.op.mnemonic == "pick"
    several = [i for i in node.inputs if isinstance(i.types, tuple) is not picks]
    if several:
        needs = (
            "needs a node with several results"
            if picks
            else "reads a node that has several results"
        )
        raise GraphError(f"{where} {needs}, {describe(several[0])}", node)
    given = node.inputs[0].results if picks else tuple(i.type for i in node.inputs)
    try:
        inferred = node.op.infer(*given)
    except (ShapeError, ValueError) as error:
        raise GraphError(f"{where} does not fit its inputs: {error}", node) from error
    if inferred != node.types:
        raise GraphError(f"{where} says {node.types}, but its inputs make it {inferred}", node)


def describe(node: Node) -> str:
    """A node in a message: its operation, and the name that the user gave it."""
    return f"{node.op.mnemonic} {node.name!r}" if node.name else node.op.mnemonic
