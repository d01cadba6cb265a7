"""Brings dot products into canonical form and folds scales and shifts by channel (batch norm) into
weights.
"""

from __future__ import annotations

from xlac.ir.graph import Graph
from xlac.passes import motion
from xlac.passes.registry import Pass, at_least, register
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.rewriter import MOST, rewrite
from xlac.passes.rewrite.rule import Rule
from xlac.passes.rewrite.trace import Trace
from xlac.passes.rules.affine import AFFINE
from xlac.passes.rules.contractions import CONTRACTIONS

RULES: tuple[Rule, ...] = (*CONTRACTIONS, *AFFINE, *motion.RULES)


@register("canonicalize-dots")
class CanonicalizeDotsPass(Pass):
    """Canonical dot products; scales and shifts by channel folded into weights.

    `limit` bounds the rewrites that one node of the graph may set off.
    """

    limit: int = at_least(0, MOST)

    def run(self, graph: Graph, trace: Trace, context: PassContext) -> Graph:
        return rewrite(graph, RULES, trace, context, self.limit)
