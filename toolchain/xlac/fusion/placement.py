"""Where a value between two operations is computed, as data: what fusion decides by its estimates
of costs, and what a user asks for instead.

A value is named by a digest of what surrounds it in its graph, so its name is the same in every
process and for values that the same operations make and read, such as those of repeated layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from xlac.fusion.cluster import is_view
from xlac.fusion.group import WITHOUT_KERNELS, Partition, Placement
from xlac.ir.graph import Graph, Node
from xlac.ops.control.control import Pick
from xlac.ops.structure import DEPTH, described, digest_of
from xlac.ops.tensor.leaf import Const, Param

WANTED = "its placement was asked for"


@dataclass(frozen=True, slots=True)
class Placements:
    """Where values are to be computed, by their names."""

    asked: Mapping[str, Placement] = field(default_factory=dict)

    def of(self, graph: Graph) -> dict[Node, Placement]:
        """The values of a graph for which a placement was asked."""
        if not self.asked:
            return {}
        return {node: self.asked[name] for node, name in names(graph).items() if name in self.asked}

    def kept(self, partition: Partition) -> dict[str, str]:
        """The names that values of a partition have, or of the bodies inside it, each with the
        reason why the value is computed elsewhere than was asked, "" where it is not.
        """
        reasons: dict[str, str] = {}
        for part in partitions(partition) if self.asked else ():
            now, name = dict(choices(part)), names(part.graph)
            why = {node: text for group in part.groups for node, text in group.barriers.items()}
            for node, placement in self.of(part.graph).items():
                right = now.get(node) is placement
                reason = "" if right else why.get(node) or "fusion has no choice about it"
                reasons[name[node]] = reasons.get(name[node]) or reason
        return reasons


def named_choices(partition: Partition) -> dict[str, tuple[Node, Placement]]:
    """The choices of a partition and of the bodies inside it by name, each with a value that has
    it; without names whose values have different ones.
    """
    found: dict[str, tuple[Node, Placement]] = {}
    several: set[str] = set()
    for part in partitions(partition):
        name = names(part.graph)
        for node, placement in choices(part):
            _, first = found.setdefault(name[node], (node, placement))
            if first is not placement:
                several.add(name[node])
    return {name: one for name, one in found.items() if name not in several}


def partitions(partition: Partition) -> Iterator[Partition]:
    """A partition, and those of the bodies inside it."""
    yield partition
    for inner in partition.inner.values():
        yield from partitions(inner)


def choices(partition: Partition) -> Iterator[tuple[Node, Placement]]:
    """The values of a graph about which fusion has a choice, and what it is; not those of bodies
    inside it. A value that is in memory for another reason than its cost has none.
    """
    stored = {node for group in partition.groups for node in group.outputs}
    for group in partition.groups:
        for node in () if group.kind in WITHOUT_KERNELS else group.nodes:
            if node in partition.chosen:
                yield node, partition.chosen[node]
            elif node not in stored and not is_view(node) and not isinstance(node.op, Pick):
                yield node, Placement.INLINE


def names(graph: Graph) -> dict[Node, str]:
    """The name of each value of a graph that an operation computes: a digest of the operations that
    make it, DEPTH of them in a row, and of those that read it.
    """
    nodes = list(graph.nodes())
    own = {node: described(node) for node in nodes}
    made = dict(own)
    for _ in range(DEPTH):
        made = {node: digest_of(own[node], *(made[i] for i in node.inputs)) for node in nodes}
    users = graph.users()
    results = set(graph.outputs.values())
    return {
        node: "v"
        + digest_of(made[node], str(node in results), *sorted(own[u] for u in users[node]))
        for node in nodes
        if not isinstance(node.op, Const | Param)
    }
