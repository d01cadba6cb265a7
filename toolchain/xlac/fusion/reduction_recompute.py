"""Decides whether a CPU recomputes a value of a cluster, mostly a reduction's, where it is read.

Values that a cluster computes between and after its reductions (such as a distance from the mean,
and an activation of it) could be read from memory by others. But from the cluster's own inputs and
its few results they are often a few operations away: then the value need not be written, and a
kernel that reads the same inputs anyway moves no more bytes. The backward pass of a normalization
is the usual case.

Where memory is scarce (`temporary_bytes` of the target), what is one operation away from values
that a cluster writes anyway is recomputed too, whatever the cluster: the mask of a relu.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xlac.fusion import cost
from xlac.fusion.cluster import Cluster, Label, is_pointwise, is_view
from xlac.fusion.consumer_fusion import ConsumerFusion
from xlac.fusion.group import Kind
from xlac.ir.graph import Node
from xlac.ops.tensor.view import Broadcast

READERS = (Kind.ELEMENTWISE, Kind.ROWS, Kind.REDUCE)
"""Kinds whose kernels stream through memory; epilogues of products compete with their operands for
caches.
"""
KEPT = 4  # such a value is kept for longer than the temporaries that a target's limit is for
SCARCE = 6  # bytes moved that a byte is worth where memory is limited


class Recompute:
    """Which values the clusters of the first sweep recompute of one another."""

    def __init__(self, consumers: ConsumerFusion) -> None:
        self.home, self.number, self.target = consumers.home, consumers.number, consumers.target
        self.prologues = consumers.prologues
        self._known: dict[Node, tuple[frozenset[Node], int] | None] = {}

    def again(
        self,
        node: Node,
        home: Cluster,
        readers: Mapping[Cluster, float],
        stored: bool,
        kept: Callable[[Node], bool],
    ) -> dict[Cluster, float]:
        """The readers of a node of a cluster that should recompute rather than read it, each with
        how often it reads an element; `stored` says whether the node is written anyway, `kept`
        which other nodes of clusters are.
        """
        others = {c: times for c, times in readers.items() if c is not home}
        if not stored and self._saves(node, kept) and all(n <= 1.0 for n in others.values()):
            return others
        return {
            reader: times
            for reader, times in others.items()
            if self.prologues.computes(reader.anchor, node)
            or (times <= 1.0 and self.pays(node, reader, stored))
        }

    def _saves(self, node: Node, kept: Callable[[Node], bool]) -> bool:
        """Whether memory is scarce, and a node is one operation on values that are kept anyway: the
        mask of a relu, from what the relu gave.
        """
        room = self.target.temporary_bytes
        if self.target.device != "cpu" or not 0 < room < cost.nbytes(node):
            return False
        if not is_pointwise(node) or cost.weight(node.op) > 1:
            return False
        read = [i for i in node.inputs if not _is_uniform(i)]
        return bool(read) and all(i in self.home and kept(i) for i in read)

    def pays(self, node: Node, reader: Cluster, stored: bool) -> bool:
        """Whether a streaming cluster moves fewer bytes by recomputing a node of another
        cluster.
        """
        recomputed = self._made_of(node)
        if recomputed is None or reader.kind not in READERS:
            return False
        sources, operations = recomputed
        others = self._at_hand(reader, node)
        more = sum(map(cost.nbytes, sources - others))
        again = more + cost.recomputing(self.target, operations, cost.elements(node))
        # a sum's pieces depend on what it computes, so its order changes
        any_order = self.target.fast or self.target.reorders_sums
        scarce = any_order and 0 < self.target.temporary_bytes < KEPT * cost.nbytes(node)
        return again < cost.nbytes(node) * (1 if stored else 2) * (SCARCE if scarce else 1)

    def _at_hand(self, reader: Cluster, node: Node) -> set[Node]:
        """The values that a cluster reads apart from one node, including the sources of other nodes
        that it would itself recompute.
        """
        available: set[Node] = set()
        for one in self._inputs(reader):
            if one is node:
                continue
            recomputed = self._made_of(one)
            if recomputed is None:
                available.add(one)
            elif sum(map(cost.nbytes, recomputed[0])) < 2 * cost.nbytes(one):
                available |= recomputed[0]
        return available

    def _inputs(self, reader: Cluster) -> set[Node]:
        """The values in memory (of clusters, or supplied by the caller) that a cluster reads,
        looking through floating nodes.
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
        """The values in memory, in the space of its cluster, from which a node is computed, and the
        operations per element; None for a value that its cluster has to write.
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


def _is_uniform(node: Node) -> bool:
    """Whether a value is one number, or a tensor full of it."""
    while isinstance(node.op, Broadcast):
        (node,) = node.inputs
    return cost.elements(node) == 1
