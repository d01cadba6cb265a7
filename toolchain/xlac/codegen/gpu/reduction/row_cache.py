"""What a group around reductions reads more than once: worth keeping between its passes."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from xlac.codegen.core.reduction_plan import ReductionPass, ReductionPlan, ReductionSpace
from xlac.fusion.group import Group, is_immediate
from xlac.ir.graph import Node
from xlac.ops.reduction.reduction import Reduce


def read_again(
    group: Group, plan: ReductionPlan, space: ReductionSpace, kept: AbstractSet[Node]
) -> list[Node]:
    """Inputs of the space's shape that the first pass reads and a later one needs that finds `kept`
    computed.
    """
    first, *later = [
        _inputs(group, one, kept if number else frozenset())
        for number, one in enumerate(plan.passes)
    ]
    needed = first & set[Node]().union(*later)
    return [n for n in group.inputs if n in needed and n.shape == space.shape]


def _inputs(group: Group, one: ReductionPass, known: AbstractSet[Node]) -> set[Node]:
    """Inputs of the group that a pass reads, given values that need not be computed."""
    found: set[Node] = set()
    stack, seen = list(one.roots), set[Node]()
    while stack:
        node = stack.pop()
        if node in seen or node in known or isinstance(node.op, Reduce):
            continue
        seen.add(node)
        if node in group.members:
            stack += node.inputs
        elif not is_immediate(node):
            found.add(node)
    return found
