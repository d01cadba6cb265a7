"""Composites whose meaning is a graph that they hold, of which they are an application."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ir.composite import Composite
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array
from xlac.ops.control import bodies
from xlac.ops.control.control import alone


class AppliedBody(Composite):
    """A composite that gives what a graph of its own gives of its operands."""

    @property
    def meaning(self) -> Graph:
        """The graph."""
        raise NotImplementedError

    def evaluate(self, *arrays: Array) -> Array | tuple[Array, ...]:
        return alone(bodies.run(self.meaning, arrays))

    def expand(self, *inputs: Node) -> Node | tuple[Node, ...]:
        results = put_in(self.meaning, inputs)
        return results[0] if len(results) == 1 else results


def put_in(body: Graph, values: Sequence[Node]) -> tuple[Node, ...]:
    """What a body gives of some values, as nodes beside them."""
    known = dict(zip(body.inputs, values, strict=True))
    return tuple(body.rewrite(lambda node: known.get(node, node)).outputs.values())
