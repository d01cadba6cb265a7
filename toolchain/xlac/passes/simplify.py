"""Applies the rules of algebra, logic and views until none applies."""

from __future__ import annotations

from xlac.ir.graph import Graph
from xlac.passes.registry import Pass, at_least, register
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.rewriter import MOST, rewrite
from xlac.passes.rewrite.rule import Rule
from xlac.passes.rewrite.trace import Trace
from xlac.passes.rules.algebra import ALGEBRA
from xlac.passes.rules.bytes.motion import BYTE_MOTION
from xlac.passes.rules.bytes.pairs import PAIR_PRODUCTS
from xlac.passes.rules.bytes.products import BYTE_PRODUCTS
from xlac.passes.rules.constants import CONSTANTS
from xlac.passes.rules.divisions import DIVISIONS
from xlac.passes.rules.logic import LOGIC
from xlac.passes.rules.normal import NORMAL
from xlac.passes.rules.padding import PADDING
from xlac.passes.rules.parts import PARTS
from xlac.passes.rules.quantized import QUANTIZED
from xlac.passes.rules.reductions import REDUCTIONS
from xlac.passes.rules.requantize import REQUANTIZE
from xlac.passes.rules.views import VIEWS
from xlac.passes.rules.zero_points import ZERO_POINTS

RULES: tuple[Rule, ...] = (
    *CONSTANTS,
    *ALGEBRA,
    *LOGIC,
    *VIEWS,
    *PARTS,
    *REDUCTIONS,
    *PADDING,
    *DIVISIONS,
    *ZERO_POINTS,
    *QUANTIZED,
    *BYTE_PRODUCTS,
    *PAIR_PRODUCTS,
    *BYTE_MOTION,
    *REQUANTIZE,
    *NORMAL,
)


@register("simplify")
class SimplifyPass(Pass):
    """Applies the rules of algebra, logic and views until none applies.

    `limit` bounds the rewrites that one node of the graph may set off.
    """

    limit: int = at_least(0, MOST)

    def run(self, graph: Graph, trace: Trace, context: PassContext) -> Graph:
        return rewrite(graph, RULES, trace, context, self.limit)
