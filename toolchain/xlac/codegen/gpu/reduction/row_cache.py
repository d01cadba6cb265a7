"""Values that a group around reductions reads in several passes, which are candidates to be kept
between them.
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Set as AbstractSet

from xlac.codegen.core.reduction_plan import ReductionPass, ReductionPlan, ReductionSpace
from xlac.fusion.group import Group, is_immediate
from xlac.ir.graph import Node
from xlac.ops.reduction.reduction import Reduce


def keepable(
    group: Group, plan: ReductionPlan, space: ReductionSpace, known: AbstractSet[Node] | None = None
) -> dict[int, list[Node]]:
    """The candidates by the pass that computes or reads them first: values that are expensive to
    recompute, and inputs that later passes still read if those (or just the `known` ones) are kept.
    """
    passes = plan.passes
    if len(passes) < 2:
        return {}
    candidates = {
        number: [node for node in one.keep if node.shape == space.shape]
        for number, one in enumerate(passes[:-1])
    }
    kept = set[Node]().union(*candidates.values()) if known is None else known
    candidates[0] += _read_again(group, plan, space, kept)
    return candidates


def chosen_of(
    kept: Collection[int], group: Group, plan: ReductionPlan, space: ReductionSpace
) -> dict[int, list[Node]]:
    """The candidates with these numbers (among the inputs and then the nodes of a
    group), by pass.
    """
    every = (*group.inputs, *group.nodes)
    wanted = {every[number] for number in kept}
    able = keepable(group, plan, space, frozenset())
    return {number: [n for n in nodes if n in wanted] for number, nodes in able.items()}


def _read_again(
    group: Group, plan: ReductionPlan, space: ReductionSpace, kept: AbstractSet[Node]
) -> list[Node]:
    """Inputs of the space's shape that the first pass reads, and a later pass too although `kept`
    values are available.
    """
    first, *later = [
        _inputs(group, one, kept if number else frozenset())
        for number, one in enumerate(plan.passes)
    ]
    needed = first & set[Node]().union(*later)
    return [n for n in group.inputs if n in needed and n.shape == space.shape]


def _inputs(group: Group, one: ReductionPass, known: AbstractSet[Node]) -> set[Node]:
    """Inputs of the group that a pass reads, if `known` values need not be computed."""
    read: set[Node] = set()
    stack, seen = list(one.roots), set[Node]()
    while stack:
        node = stack.pop()
        if node in seen or node in known or isinstance(node.op, Reduce):
            continue
        seen.add(node)
        if node in group.members:
            stack += node.inputs
        elif not is_immediate(node):
            read.add(node)
    return read
