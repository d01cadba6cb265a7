"""Concatenations that a cluster stores piece by piece, and those of which it reads elements."""

from __future__ import annotations

from xlac.fusion import cost
from xlac.fusion.cluster import Cluster
from xlac.fusion.group import Kind
from xlac.ir.dims import volume
from xlac.ir.graph import Node
from xlac.ops.tensor.extend import Concat
from xlac.ops.tensor.view import Reshape


class PiecewiseStores:
    """Which nodes of clusters are stored piece by piece: a concatenation that a cluster writes,
    also beneath reshapes and other concatenations. Each piece is computed at an index of its own;
    an element of any other concatenation is chosen among the elements of all its pieces.
    """

    def __init__(self) -> None:
        self._stored: set[tuple[Cluster, Node]] = set()

    def read(self, cluster: Cluster, user: Node, node: Node) -> None:
        """Records that a node is read by one user inside a cluster."""
        if self.writes(cluster, user):
            self._stored.add((cluster, node))

    def refuses(self, cluster: Cluster, user: Node, node: Node, operations: int) -> str:
        """Why a cluster reads an operand of its node, of so many operations an element, from
        memory; "" where nothing here speaks against computing it.
        """
        if not isinstance(user.op, Reshape) or not isinstance(node.op, Concat):
            return ""
        if operations <= cost.GATHERING or self.writes(cluster, user):
            return ""
        axis = node.op.axis
        if node.shape[axis] == len(node.inputs) and volume(node.shape[axis + 1 :]) == 1:
            return ""  # single elements in turn: vectors of the pieces are interleaved
        ends = (volume(node.shape[axis + 1 :]), volume(node.shape[axis:]))
        if all(end in [volume(user.shape[a:]) for a in range(len(user.shape) + 1)] for end in ends):
            return ""
        return (
            "an element of a concatenation behind a reshape is found by division, and chosen among "
            "all pieces"
        )

    def writes(self, cluster: Cluster, node: Node) -> bool:
        """Whether a cluster stores the pieces of a node, each at the index where it is computed."""
        return (
            cluster.kind is Kind.ELEMENTWISE
            and isinstance(node.op, Concat | Reshape)
            and (node in cluster.outputs or (cluster, node) in self._stored)
        )
