"""Closed graphs made of the bodies of branches and loops: values that they read from outside become
parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xlac.frontends.known import Known
from xlac.ir.graph import Graph, Node
from xlac.ops import build
from xlac.ops.tensor.leaf import Const


@dataclass(slots=True)
class Captures:
    """The nodes that a closed graph captures from the enclosing graph: outer node -> its
    parameter.
    """

    known: Known
    inside: dict[Node, Node] = field(default_factory=dict)

    def node(self, outer: Node) -> Node:
        """The closed graph's parameter for an outer node; constants are shared."""
        if isinstance(outer.op, Const):
            return outer
        if outer not in self.inside:
            name = f"outer{len(self.inside)}"
            self.inside[outer] = param = build.param(name, outer.type.dtype, outer.shape)
            self.known.outside[param] = outer
        return self.inside[outer]

    def parameters(self, outside: Sequence[Node]) -> list[Node]:
        """The parameters that stand for the nodes `outside`, of which the graph captured some."""
        return [
            self.inside.get(node) or build.param(f"unused{n}", node.type.dtype, node.shape)
            for n, node in enumerate(outside)
        ]

    def closed(
        self, name: str, params: Sequence[Node], outside: Sequence[Node], outputs: Sequence[Node]
    ) -> Graph:
        """The closed graph of these parameters and of those that stand for the nodes `outside`;
        its outputs are called y0, y1, ...
        """
        inputs = (*params, *self.parameters(outside))
        return Graph(name, inputs, {f"y{n}": node for n, node in enumerate(outputs)})
