"""Merges nodes that compute the same value: equal operations on equal inputs."""

from __future__ import annotations

from xlac.ir.graph import Graph, Node
from xlac.ops.control.effect import Barrier, CustomCall
from xlac.ops.tensor.leaf import Param
from xlac.passes.registry import Pass, register
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.rewriter import everywhere
from xlac.passes.rewrite.trace import Trace


@register("cse")
class CsePass(Pass):
    """Merges nodes that compute the same value (common subexpressions)."""

    def run(self, graph: Graph, trace: Trace, context: PassContext) -> Graph:
        return everywhere(graph, lambda g: merge(g, trace))


def merge(graph: Graph, trace: Trace) -> Graph:
    """A graph, whose bodies are done, with equal operations on equal inputs merged."""
    known: dict[object, Node] = {}

    def visit(node: Node) -> Node:
        if isinstance(node.op, CustomCall | Barrier) or (
            isinstance(node.op, Param) and node.op.kind != "weight"
        ):
            return node
        try:
            first = known.setdefault((node.op, node.inputs, node.types), node)
        except TypeError:  # an attribute that cannot be hashed
            return node
        return first if first is node or trace.permits("cse", node) else node

    return graph.rewrite(visit)
