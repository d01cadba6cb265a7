"""Concatenations of one shape whose pieces compute or read values in common, such as the real and
the imaginary parts of a Fourier transform: one cluster writes them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xlac.fusion.cluster import MAX_NODES, Cluster, is_pointwise
from xlac.fusion.consumer_fusion import ConsumerFusion
from xlac.fusion.group import Kind, is_immediate
from xlac.ir.graph import Node
from xlac.ops.tensor.extend import Concat
from xlac.ops.tensor.leaf import Iota
from xlac.ops.tensor.view import Broadcast, Reshape
from xlac_sdk.support.limits import count_work


class SiblingConcats:
    """The concatenations of a graph that have such siblings, and the clusters that write them."""

    def __init__(self, consumers: ConsumerFusion) -> None:
        self.first: dict[Node, Node] = {}  # the first of its siblings
        self._cluster: dict[Node, Cluster] = {}  # that writes them, by the first
        latest: dict[object, tuple[Node, frozenset[Node]]] = {}
        for node in consumers.nodes if self._are_joined(consumers) else ():
            if not isinstance(node.op, Concat) or len(node.inputs) < 2:
                continue
            count_work()
            key = (
                node.shape,
                node.op.axis,
                tuple(x.shape for x in node.inputs),
                consumers.newest[node],
            )
            before = latest.get(key)
            needed = _needed(node, consumers.home)
            if before is not None and not needed.isdisjoint(before[1]):
                self.first[node] = self.first.setdefault(before[0], before[0])
            latest[key] = node, needed

    @staticmethod
    def _are_joined(consumers: ConsumerFusion) -> bool:
        """Whether one cluster may write several: not where a launch takes few buffers."""
        return consumers.fuse and not consumers.target.most_buffers

    def host(self, node: Node, readers: Iterable[Cluster]) -> Cluster | None:
        """The cluster that writes a sibling of a node, if no reader runs before it."""
        first = self.first.get(_beneath(node))
        cluster = None if first is None else self._cluster.get(first)
        if (
            cluster is None
            or len(cluster.outputs) >= 8
            or any(c.key <= cluster.key for c in readers)
        ):
            return None
        return cluster if node.shape == cluster.anchor.shape else None

    def written(self, node: Node, cluster: Cluster) -> None:
        """Records the cluster of a node that is written to memory."""
        first = self.first.get(_beneath(node))
        if first is not None and cluster.kind is Kind.ELEMENTWISE:
            self._cluster[first] = cluster


def _beneath(node: Node) -> Node:
    while isinstance(node.op, Reshape):
        (node,) = node.inputs
    return node


def _needed(concat: Node, home: Mapping[Node, Cluster]) -> frozenset[Node]:
    """What the pieces of a concatenation compute, or read whole, at the index at which they are
    read.
    """
    needed: set[Node] = set()
    stack = list(concat.inputs)
    while stack and len(needed) < MAX_NODES:
        node = stack.pop()
        if node in needed or is_immediate(node):
            continue
        if node not in home and is_pointwise(node):
            stack += node.inputs
        elif isinstance(node.op, Broadcast | Iota):
            continue
        needed.add(node)
    return frozenset(needed)
