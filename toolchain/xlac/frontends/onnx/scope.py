"""The names visible in a graph, a body or a function while it is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xlac.frontends.onnx.values import Value, mapped, nodes
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build
from xlac.ops.leaf import Const


class Poisoned(Exception):
    """A node that needs what another failed to give: told once, where it failed."""


@dataclass(slots=True)
class Scope:
    """Names to values; what a scope lacks its outer one may have.

    A name whose node failed stands for None. `captures` makes the scope that of a closed graph: what comes from
    outside arrives as a parameter, which it remembers by the node outside.
    """

    values: dict[str, Value | None] = field(default_factory=dict)
    outer: Scope | None = None
    versions: Mapping[str, int] = field(default_factory=dict)  # domain -> version of its operator set
    captures: dict[Node, Node] | None = None

    def find(self, name: str) -> Value:
        """The value of a name. Raises ShapeError, or Poisoned where the node that gives it failed."""
        if name in self.values:
            found = self.values[name]
            if found is None:
                raise Poisoned(name)
            return found
        if self.outer is None:
            raise ShapeError(f"nothing is called '{name}'")
        found = self.outer.find(name)
        return found if self.captures is None else self._captured(found, self.captures)

    def _captured(self, value: Value, captures: dict[Node, Node]) -> Value:
        for node in nodes(value):
            if node not in captures and not isinstance(node.op, Const):
                captures[node] = build.param(f"outer{len(captures)}", node.type.dtype, node.shape)
        return mapped(value, captures)
