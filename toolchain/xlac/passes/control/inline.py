"""Inlines bodies that run exactly once: calls, branches with a known index, scans of at most one
step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from xlac.ir.dims import static
from xlac.ir.graph import Graph, Node
from xlac.ops.control.control import Call, Cond, Pick, Scan
from xlac.ops.tensor.leaf import Const
from xlac.ops.tensor.view import Reshape
from xlac.passes.registry import Pass, register
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.rewriter import everywhere, rebuild
from xlac.passes.rewrite.rule import constant
from xlac.passes.rewrite.trace import Trace


@register("inline")
class InlinePass(Pass):
    """Inlines bodies that run exactly once."""

    def run(self, graph: Graph, trace: Trace, context: PassContext) -> Graph:
        return everywhere(graph, lambda g: Inliner(trace).run(g))


class Inliner:
    """Rewrites one graph whose bodies are rewritten already."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.parts: dict[Node, tuple[Node, ...]] = {}  # the results of a replaced node

    def run(self, graph: Graph) -> Graph:
        """The graph with such bodies inlined."""
        if not any(isinstance(node.op, Call | Cond | Scan) for node in graph.nodes()):
            return graph
        return rebuild(graph, self.visit)

    def visit(self, old: Node, node: Node) -> Node:
        """The rewritten node."""
        if isinstance(node.op, Pick) and node.inputs[0] in self.parts:
            return self.parts[node.inputs[0]][node.op.index]
        inlined = unrolled(node)
        if inlined is None or not self.trace.permits("inline", node):
            return node
        if len(inlined) == 1:
            return inlined[0]
        self.parts[node] = inlined
        return node


def unrolled(node: Node) -> tuple[Node, ...] | None:
    """The results of an operation whose body runs once, or never."""
    match node.op:
        case Call(body=body) if body is not None:
            return placed(body, node.inputs)
        case Cond(branches=branches):
            index, *args = node.inputs
            if (number := constant(index)) is None:
                return placed(branches[0], args) if len(branches) == 1 else None
            chosen = int(number)
            return placed(branches[chosen if 0 <= chosen < len(branches) else -1], args)
        case Scan(length=0):
            carry, _, _ = node.op.parts(node.inputs)
            empty = (
                Const(np.zeros(static(t.shape), t.dtype.numpy)) for t in node.results[len(carry) :]
            )
            return (*carry, *(Node.of(op, origin=node.origin) for op in empty))
        case Scan(length=1, body=body, carries=carries) if body is not None:
            carry, scanned, rest = node.op.parts(node.inputs)
            slices = [Node.of(Reshape(x.shape[1:]), x, origin=node.origin) for x in scanned]
            results = placed(body, [*carry, *slices, *rest])
            stacked = (
                Node.of(Reshape((1, *y.shape)), y, origin=node.origin) for y in results[carries:]
            )
            return (*results[:carries], *stacked)
    return None


def placed(body: Graph, inputs: Sequence[Node]) -> tuple[Node, ...]:
    """The results of a body for given inputs."""
    new = dict(zip(body.inputs, inputs, strict=True))
    for node in body.nodes():
        if node not in new:
            given = tuple(new[i] for i in node.inputs)
            new[node] = node if given == node.inputs else replace(node, inputs=given)
    return tuple(new[node] for node in body.outputs.values())
