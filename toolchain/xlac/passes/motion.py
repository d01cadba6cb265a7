"""Moves views through computation, where they cancel, merge, or reduce the elements to compute."""

from __future__ import annotations

from xlac.ir.graph import Graph
from xlac.passes.registry import Pass, at_least, register
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.rewriter import MOST, ROUNDS, rewrite
from xlac.passes.rewrite.rule import Rule
from xlac.passes.rewrite.trace import Trace
from xlac.passes.rules.constants import CONSTANTS
from xlac.passes.rules.motion import MOTION
from xlac.passes.rules.parts import PARTS
from xlac.passes.rules.reductions import REDUCTIONS
from xlac.passes.rules.views import VIEWS
from xlac.passes.simplify import RULES as SIMPLIFY

RULES: tuple[Rule, ...] = (*CONSTANTS, *VIEWS, *PARTS, *REDUCTIONS, *MOTION)


@register("motion")
class MotionPass(Pass):
    """Moves views through computation, where they cancel, merge, or reduce the elements to compute.

    Alternates with simplification of views that became adjacent until neither changes anything.
    `limit` bounds the rewrites that one node of the graph may set off in a walk.
    """

    limit: int = at_least(0, MOST)

    def run(self, graph: Graph, trace: Trace, context: PassContext) -> Graph:
        for _ in range(ROUNDS):
            before, graph = graph, rewrite(graph, RULES, trace, context, self.limit)
            if graph is before:
                break
            before, graph = graph, rewrite(graph, SIMPLIFY, trace, context, self.limit)
            if graph is before:
                break
        return graph
