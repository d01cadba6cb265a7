"""Moves views through computation, where they cancel, merge, or leave less to compute."""

from __future__ import annotations

from xlac.ir.graph import Graph
from xlac.passes.registry import Pass, at_least, register
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.rewriter import MOST, rewrite
from xlac.passes.rewrite.rule import Rule
from xlac.passes.rewrite.trace import Trace
from xlac.passes.rules.constants import CONSTANTS
from xlac.passes.rules.motion import MOTION
from xlac.passes.rules.parts import PARTS
from xlac.passes.rules.reductions import REDUCTIONS
from xlac.passes.rules.views import VIEWS

RULES: tuple[Rule, ...] = (*CONSTANTS, *VIEWS, *PARTS, *REDUCTIONS, *MOTION)


@register("motion")
class MotionPass(Pass):
    """Moves views through computation, where they cancel, merge, or leave less to compute.

    `limit` is how many rewrites one node of the graph may set off.
    """

    limit: int = at_least(0, MOST)

    def run(self, graph: Graph, trace: Trace, context: PassContext) -> Graph:
        return rewrite(graph, RULES, trace, context, self.limit)
