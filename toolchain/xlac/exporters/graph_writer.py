"""Writers of graphs in other formats: a node after the other, with its name as a hint, and the
nodes that the format cannot express.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from xlac.exporters.unsaid import Unsaid
from xlac.ir.composite import Composite
from xlac.ir.graph import Graph, Node, walk
from xlac.ir.types import Type
from xlac.ops.control.control import Pick
from xlac.ops.tensor.leaf import Const, Param

V = TypeVar("V")


class GraphWriter(ABC, Generic[V]):
    """Writes nodes as values of the format, of type V."""

    def __init__(self) -> None:
        self.problems: dict[Node, str] = {}
        self.hint = ""

    def inline(self, graph: Graph, given: Sequence[V]) -> list[V]:
        """The results of a graph, inlined with given values of its inputs."""
        values: dict[Node, Any] = dict(zip(graph.inputs, given, strict=True))
        for node in graph.nodes():
            if node not in values:
                values[node] = self.node(node, values)
        return [values[n] for n in graph.outputs.values()]

    def node(self, node: Node, values: dict[Node, Any]) -> Any:
        """The value of a node; a list of values where it has several."""
        if isinstance(node.op, Pick):
            return values[node.inputs[0]][node.op.index]
        before, self.hint = self.hint, node.name or self.hint
        try:
            if isinstance(node.op, Const | Param):
                return self.leaf(node)
            return self.written(node, values)
        except Unsaid as reason:
            self.problems.setdefault(node, str(reason))
            placeholders = [self.placeholder(t) for t in node.results]
            return placeholders if len(placeholders) > 1 else placeholders[0]
        finally:
            self.hint = before

    def expansion(self, node: Node, values: dict[Node, Any], refusal: str | None) -> Any:
        """The value of a composite written by its expansion. Raises Unsaid for another operation,
        with the reason for its `refusal`.
        """
        if not isinstance(node.op, Composite):
            assert refusal is not None, f"no rule writes {node.op.mnemonic}, and none refuses it"
            raise Unsaid(refusal)
        roots = node.op.expanded(*node.inputs)
        known = {i: values[i] for i in node.inputs}
        for inner in walk(roots, known):
            known[inner] = self.node(inner, known)
        named = [known[root] for root in roots]
        return named if len(node.results) > 1 else named[0]

    @abstractmethod
    def leaf(self, node: Node) -> V:
        """The value of a constant or a parameter."""

    @abstractmethod
    def written(self, node: Node, values: dict[Node, Any]) -> Any:
        """The value of an operation, by its rule or `expansion`. Raises Unsaid."""

    @abstractmethod
    def placeholder(self, type: Type) -> V:
        """What stands for a value that cannot be written."""
