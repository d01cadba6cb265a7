"""The names visible in a graph, a body or a function during import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xlac.frontends.importing.captures import Captures
from xlac.frontends.importing.model_importer import MissingValue
from xlac.frontends.onnx.graph.values import Value, mapped, nodes
from xlac.ir.op import ShapeError


@dataclass(slots=True)
class GraphScope:
    """Maps names to values; names that are not found are looked up in the outer scope.

    A name whose node failed maps to None. With `captures` the scope belongs to a closed graph, and
    outer values become parameters.
    """

    values: dict[str, Value | None] = field(default_factory=dict)
    outer: GraphScope | None = None
    # domain -> version of its operator set
    versions: Mapping[str, int] = field(default_factory=dict)
    captures: Captures | None = None
    # the names of outputs of nodes that are still to be built
    awaited: frozenset[str] = frozenset()

    def find(self, name: str) -> Value:
        """The value of a name. Raises ShapeError, or MissingValue where the node that gives
        it failed.
        """
        if name in self.values:
            value = self.values[name]
            if value is None:
                raise MissingValue(name)
            return value
        if name in self.awaited:
            raise ShapeError(
                f"'{name}' is read before the node that gives it",
                hint="nodes stand in order, without cycles",
            )
        if self.outer is None:
            raise ShapeError(f"nothing is called '{name}'")
        return self.own(self.outer.find(name))

    def own(self, value: Value) -> Value:
        """An outer value as it is used in this scope: captured if the graph is closed."""
        if self.captures is None:
            return value
        return mapped(value, {node: self.captures.node(node) for node in nodes(value)})
