"""Brings dot products into canonical form and folds scales and shifts by channel (batch norm) into
weights.
"""

from __future__ import annotations

from xlac.ir.graph import Graph
from xlac.passes import motion
from xlac.passes.rewrite.context import Context
from xlac.passes.rewrite.rewriter import rewrite
from xlac.passes.rewrite.rule import Rule
from xlac.passes.rewrite.trace import Trace
from xlac.passes.rules.affine import AFFINE
from xlac.passes.rules.contractions import CONTRACTIONS

RULES: tuple[Rule, ...] = (*CONTRACTIONS, *AFFINE, *motion.RULES)


def run(graph: Graph, trace: Trace, context: Context) -> Graph:
    return rewrite(graph, RULES, trace, context)
