"""Nodes to which no rule applied are not tried again by the same rules, but for rules that ask who
reads a value, or that were refused.
"""

from __future__ import annotations

from pass_graphs import graph, x

from xlac.ir.graph import Graph, Node
from xlac.ops import build
from xlac.ops.scalar.arithmetic import Sqrt
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.rewriter import rewrite
from xlac.passes.rewrite.rule import Site, Structural, rule
from xlac.passes.rewrite.trace import Trace


def chain() -> Graph:
    """Square roots of square roots, and exp of the last."""
    h = x(4)
    for _ in range(5):
        h = build.sqrt(h)
    return graph(build.exp(h))


class Tried:
    """Rules that count how often they are tried."""

    def __init__(self, asks: bool = False, applies: bool = False) -> None:
        self.count = 0

        @rule(Sqrt, examples=())
        def counted(node: Node, site: Site) -> Node | None:
            self.count += 1
            if asks:
                site.single(node.inputs[0])
            return build.exp(node.inputs[0]) if applies else None

        self.rules: tuple[Structural, ...] = (counted,)

    def walk(self, graph: Graph, context: PassContext, trace: Trace | None = None) -> int:
        """How often a rule is tried in a walk."""
        before = self.count
        rewrite(graph, self.rules, trace or Trace(), context)
        return self.count - before


def test_settled_nodes_are_not_tried_again() -> None:
    roots, context, tried = chain(), PassContext(), Tried()
    assert [tried.walk(roots, context) for _ in range(3)] == [5, 0, 0]
    longer = graph(build.sqrt(roots.outputs["y0"]))
    assert tried.walk(longer, context) == 1, "the new node only"
    assert Tried().walk(roots, context) == 5, "other rules"
    assert tried.walk(roots, PassContext()) == 5, "other facts"


def test_what_depends_on_readers_is_tried_again() -> None:
    roots, context, tried = chain(), PassContext(), Tried(asks=True)
    assert [tried.walk(roots, context) for _ in range(2)] == [5, 5]


def test_what_was_refused_is_tried_again() -> None:
    roots, context, tried = chain(), PassContext(), Tried(applies=True)
    assert [tried.walk(roots, context, Trace(fuel=0)) for _ in range(2)] == [5, 5]
