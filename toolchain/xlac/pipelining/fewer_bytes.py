"""Moves nodes of which nothing is said to the stage where the fewest bytes pass between stages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping

from xlac.ir.graph import Graph, Node
from xlac.placement.cut import nbytes

SWEEPS = 4  # over the nodes; each move makes what passes less


def move_nodes(
    graph: Graph,
    stage_of: MutableMapping[Node, int],
    free: Collection[Node],
    moving: Collection[Node],
) -> None:
    """Changes the stages of nodes that are `free` to that of an operand or a reader, where fewer
    bytes pass then. Nodes that are `moving` are computed where they are read.
    """
    reads = _reads(graph, stage_of, moving)
    readers: dict[Node, list[Node]] = {}
    for node, given in reads.items():
        for one in given:
            readers.setdefault(one, []).append(node)

    def cost(node: Node, stage: int) -> int:
        """The bytes of its operands that pass for it alone, and of its result."""
        there = {stage_of[reader] for reader in readers.get(node, ())} - {stage}
        total = nbytes(node) * len(there)
        for one in reads[node]:
            others = {stage_of[reader] for reader in readers[one] if reader is not node}
            total += nbytes(one) * (stage not in {stage_of[one], *others})
        return total

    order = [node for node in graph.order if node in free]
    for _ in range(SWEEPS):
        before = dict(stage_of)
        for node in (*order[::-1], *order):
            after = {stage_of[one] for one in readers.get(node, ())}
            near = {stage_of[node], *after, *(stage_of[one] for one in reads[node])}
            # of equals where it is read, so that several in a row can move one after the other
            costs = [(cost(node, stage), stage not in after, stage) for stage in near]
            stage_of[node] = min(costs)[2]
        if before == stage_of:
            break


def _reads(
    graph: Graph, stage_of: Mapping[Node, int], moving: Collection[Node]
) -> dict[Node, set[Node]]:
    """The values of stages that each node reads, also by way of nodes that move."""
    behind: dict[Node, set[Node]] = {}
    reads: dict[Node, set[Node]] = {}
    for node in graph.order:
        given: set[Node] = set()
        for one in node.inputs:
            given |= {one} if one in stage_of else behind.get(one, set())
        if node in stage_of:
            reads[node] = given
        elif node in moving:
            behind[node] = given
    return reads
