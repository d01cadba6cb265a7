"""The names visible in a graph, a body or a function while it is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xlac.frontends.known import Known
from xlac.frontends.onnx.graph.values import Value, mapped, nodes
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build
from xlac.ops.tensor.leaf import Const


class MissingInput(Exception):
    """A node that needs what another failed to give: told once, where it failed."""


@dataclass(slots=True)
class Captures:
    """What a closed graph reads of the graph around it: outer node -> its parameter."""

    known: Known
    inside: dict[Node, Node] = field(default_factory=dict)

    def value(self, value: Value) -> Value:
        """An outer value as the closed graph has it; constants are the same in both."""
        for node in nodes(value):
            if node not in self.inside and not isinstance(node.op, Const):
                param = build.param(f"outer{len(self.inside)}", node.type.dtype, node.shape)
                self.inside[node] = param
                self.known.outside[param] = node
        return mapped(value, self.inside)


@dataclass(slots=True)
class GraphScope:
    """Names to values; what a scope lacks its outer one may have.

    A name whose node failed stands for None. With `captures` the scope is that of a closed graph,
    which all that comes from outside enters as a parameter.
    """

    values: dict[str, Value | None] = field(default_factory=dict)
    outer: GraphScope | None = None
    # domain -> version of its operator set
    versions: Mapping[str, int] = field(default_factory=dict)
    captures: Captures | None = None
    # what the nodes that are being built will give, sooner or later
    awaited: frozenset[str] = frozenset()

    def find(self, name: str) -> Value:
        """The value of a name. Raises ShapeError, or Poisoned where the node that gives it
        failed.
        """
        if name in self.values:
            found = self.values[name]
            if found is None:
                raise MissingInput(name)
            return found
        if name in self.awaited:
            raise ShapeError(
                f"'{name}' is read before the node that gives it",
                hint="nodes stand in order, without cycles",
            )
        if self.outer is None:
            raise ShapeError(f"nothing is called '{name}'")
        return self.own(self.outer.find(name))

    def own(self, value: Value) -> Value:
        """A value of the outer graph as this scope may use it."""
        return value if self.captures is None else self.captures.value(value)
