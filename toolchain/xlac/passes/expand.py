"""Replaces composites by their definitions, unless the target claims them or a lowering takes them
whole.
"""

from __future__ import annotations

from dataclasses import replace

from xlac.ir.composite import Composite
from xlac.ir.graph import Graph, Node, map_bodies, walk
from xlac.ir.op import Elementwise, Op
from xlac.ops.control.control import Pick
from xlac.passes.registry import Pass, register
from xlac.passes.rewrite.context import IsKept, PassContext
from xlac.passes.rewrite.trace import Trace
from xlac_sdk.source import Diagnostic, Origin, SourceError
from xlac_sdk.target import Target


@register("expand")
class ExpandPass(Pass):
    """Replaces composites that are not taken whole by their definitions."""

    def run(self, graph: Graph, trace: Trace, context: PassContext) -> Graph:
        return Expander(context, trace).graph(graph)


class Expander:
    """Expands graphs; a graph that several operations share is expanded once.

    A composite whose expansion the trace refuses remains; the interpreter can run it, but no
    lowering takes it.
    """

    def __init__(self, context: PassContext, trace: Trace) -> None:
        self.context, self.trace = context, trace
        self.done: dict[Graph, Graph] = {}
        # the replacements for the results of an expanded node
        self.parts: dict[Node, tuple[Node, ...]] = {}

    def graph(self, graph: Graph) -> Graph:
        """The graph with composites expanded, in its bodies too."""
        if graph not in self.done:
            self.done[graph] = graph.rewrite(self.visit)
        return self.done[graph]

    def visit(self, node: Node) -> Node:
        """A node with expanded inputs. One with several results is replaced where they are
        picked.
        """
        op = node.op
        if isinstance(op, Pick) and node.inputs[0] in self.parts:
            return self.parts[node.inputs[0]][op.index]
        if (
            is_expanded(op)
            and not self.context.is_kept(node, self.context.target)
            and self.trace.permits(f"expansion of {op.mnemonic}", node)
        ):
            assert isinstance(op, Composite)
            expansion = self.expand(node, op)
            if len(expansion) == 1:
                return expansion[0]
            self.parts[node] = expansion
            return node
        return map_bodies(node, self.graph) if op.bodies() else node

    def expand(self, node: Node, op: Composite) -> tuple[Node, ...]:
        """The results of a composite's definition, every node with an origin."""
        roots = op.expanded(*node.inputs)
        new = {i: i for i in node.inputs}
        for inner in walk(roots, new):
            origin = inner.origin or node.origin
            blamed = (
                map_bodies(inner, lambda g, o=origin: blame(g, o)) if inner.op.bodies() else inner  # type: ignore[misc]
            )
            new[inner] = self.visit(
                replace(blamed, inputs=tuple(new[i] for i in inner.inputs), origin=origin)
            )
        for root, given in zip(roots, node.results, strict=True):
            assert new[root].types == given, (
                f"{op.mnemonic} expands to {new[root].types}, not {given}"
            )
        return tuple(new[root] for root in roots)


def is_expanded(op: Op) -> bool:
    """Whether a composite is expanded here. Elementwise ones (tanh) remain; the SDK expands those
    that a target lacks.
    """
    return isinstance(op, Composite) and not isinstance(op, Elementwise)


def check_expanded(graph: Graph, target: Target, is_kept: IsKept) -> None:
    """Raises SourceError for a remaining composite, in bodies too, that nothing takes whole."""
    for node in graph.nodes():
        if is_expanded(node.op) and not is_kept(node, target):
            problem = f"no kernel computes {node.op.mnemonic}, and no pass expands it"
            span = node.origin.span if node.origin else None
            raise SourceError(Diagnostic("XL4104", problem, span, "add `expand` to the passes"))
        for body in node.op.bodies():
            check_expanded(body, target, is_kept)


def blame(body: Graph, origin: Origin | None) -> Graph:
    """A body whose operations without an origin get that of the composite that made them."""
    return body.rewrite(
        lambda n: n if n.origin or not n.inputs or origin is None else replace(n, origin=origin)
    )
