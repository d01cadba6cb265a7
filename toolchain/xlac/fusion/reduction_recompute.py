"""Weighs whether a CPU computes a value of a reduction's cluster again where it is read.

What a cluster computes between and after its reductions (a distance from the mean, what an
activation makes of it) others could read from memory. But from what the cluster itself read and its
results, which are few, it is often a few operations: then the value need not be written, and a
kernel that has the source at hand anyway reads nothing more. The backward pass of a normalization
is the usual case.
"""

from __future__ import annotations

from collections.abc import Mapping

from xlac.fusion import cost
from xlac.fusion.cluster import Cluster, Label, is_pointwise, is_view
from xlac.fusion.consumer_fusion import ConsumerFusion
from xlac.fusion.group import Kind
from xlac.ir.graph import Node

READERS = (Kind.ELEMENTWISE, Kind.ROWS, Kind.REDUCE)
"""Clusters that cross memory: epilogues of products compete for caches with their operands."""


class Recompute:
    """What the clusters of the first sweep compute again of one another's."""

    def __init__(self, consumers: ConsumerFusion) -> None:
        self.home, self.number, self.target = consumers.home, consumers.number, consumers.target
        self.prologues = consumers.prologues
        self._known: dict[Node, tuple[frozenset[Node], int] | None] = {}

    def again(
        self, node: Node, home: Cluster, readers: Mapping[Cluster, float], stored: bool
    ) -> dict[Cluster, float]:
        """The readers of a node of a cluster, with how often each reads an element, that had better
        compute it than read it; `stored` says that it is written anyway.
        """
        return {
            reader: times
            for reader, times in readers.items()
            if reader is not home
            and (
                self.prologues.computes(reader.anchor, node)
                or (times <= 1.0 and self.pays(node, reader, stored))
            )
        }

    def pays(self, node: Node, reader: Cluster, stored: bool) -> bool:
        """Whether a cluster that crosses memory moves less by computing a node of another."""
        made = self._made_of(node)
        if made is None or reader.kind not in READERS:
            return False
        sources, operations = made
        others = self._at_hand(reader, node)
        more = sum(map(cost.nbytes, sources - others))
        again = more + cost.recomputing(self.target, operations, cost.elements(node))
        return again < cost.nbytes(node) * (1 if stored else 2)

    def _at_hand(self, reader: Cluster, node: Node) -> set[Node]:
        """What a cluster reads, but for one node; what other nodes are made of that it computes
        again for their own sake is read as well.
        """
        available: set[Node] = set()
        for one in self._inputs(reader):
            if one is node:
                continue
            made = self._made_of(one)
            if made is None:
                available.add(one)
            elif sum(map(cost.nbytes, made[0])) < 2 * cost.nbytes(one):
                available |= made[0]
        return available

    def _inputs(self, reader: Cluster) -> set[Node]:
        """The values with a cluster, or of the caller's, that a cluster reads, floating ones being
        looked through.
        """
        values: set[Node] = set()
        stack = [i for member in reader.members for i in member.inputs if i not in reader.members]
        seen = set(stack)
        while stack:
            node = stack.pop()
            if node not in self.number or node in self.home:
                values.add(node)
                continue
            for i in node.inputs:
                if i not in seen:
                    seen.add(i)
                    stack.append(i)
        return values

    def _made_of(self, node: Node) -> tuple[frozenset[Node], int] | None:
        """The values in memory, of the space of its cluster, that a node is made of, and by how
        many operations an element; None for what a cluster has to write.
        """
        if node not in self._known:
            self._known[node] = self._walked(node)
        return self._known[node]

    def _walked(self, root: Node) -> tuple[frozenset[Node], int] | None:
        home = self.home.get(root)
        if self.target.device != "cpu" or home is None or not home.reduces:
            return None
        if home.labels.get(root) is not Label.FULL or not is_pointwise(root):
            return None
        stack, seen, reached, operations = [root], {root}, set[Node](), 0
        while stack:
            node = stack.pop()
            inside = self.home.get(node) is home or self._floats(node)
            if inside and is_pointwise(node):
                operations += cost.weight(node.op)
            elif not (inside and is_view(node)):
                if cost.elements(node) == cost.elements(root):
                    reached.add(node)
                continue
            for i in node.inputs:
                if i not in seen:
                    seen.add(i)
                    stack.append(i)
        return frozenset(reached), operations

    def _floats(self, node: Node) -> bool:
        return node in self.number and node not in self.home
