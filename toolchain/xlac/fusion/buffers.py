"""Groups within the buffers of a launch (`Target.most_buffers`).

A group that reads and writes more is cut at one of its nodes: that is computed by a kernel of its
own and written to memory, and its readers take it from there. Fusion is repeated with the cuts
until every group fits, or has no node whose result would replace several operands.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from xlac.fusion.cluster import Cluster, is_view
from xlac.fusion.group import WITHOUT_KERNELS, Group, is_immediate
from xlac.ir.graph import Node
from xlac.ops.control.control import Pick

CROWDED = "the kernel would read and write more buffers than a launch takes"


def buffers_of(clusters: Iterable[Cluster]) -> int:
    """The buffers of a kernel that computes all clusters."""
    given = [*clusters]
    members = {node for cluster in given for node in cluster.members}
    read = {i for n in members for i in n.inputs if i not in members and not is_immediate(i)}
    return len(read) + len({node for cluster in given for node in cluster.outputs})


def cuts(groups: Iterable[Group], most: int, known: Container[Node]) -> set[Node]:
    """A further node of each group with more than `most` buffers, where one helps."""
    found = set()
    for group in groups:
        read = sum(not is_immediate(node) for node in group.inputs)
        if group.kind not in WITHOUT_KERNELS and read + len(group.outputs) > most:
            found |= {*_cut(group, most, known)}
    return found


def _cut(group: Group, most: int, known: Container[Node]) -> list[Node]:
    """The node that the most operands, but no more than a kernel may have, are read for; else the
    last of the results that the group could leave to another.
    """
    operands: dict[Node, frozenset[Node]] = {}
    for node in group.nodes:
        own = frozenset(i for i in node.inputs if i not in group and not is_immediate(i))
        operands[node] = own.union(*(operands[i] for i in node.inputs if i in operands))
    used = {i for node in group.nodes for i in node.inputs if i in group}
    free = [
        node
        for node in group.nodes
        if node not in known and not is_view(node) and not isinstance(node.op, Pick)
    ]
    inside = [node for node in free if node in used and 2 <= len(operands[node]) < most]
    if inside:
        return [max(inside, key=lambda node: len(operands[node]))]
    return [node for node in free if node in group.outputs and node is not group.anchor][-1:]
