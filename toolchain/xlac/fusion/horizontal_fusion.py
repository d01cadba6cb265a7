"""Joins elementwise clusters that do not need each other: those of one shape that share an operand,
and tiny ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xlac.fusion import cost
from xlac.fusion.cluster import MAX_NODES, Cluster
from xlac.fusion.group import Kind, is_immediate
from xlac.ir.graph import Node
from xlac.ops.tensor import view
from xlac_sdk.support.limits import went
from xlac_sdk.target import Target

TINY = 1 << 12  # bytes written by clusters that are joined whatever their shapes
GPU_TINY = 1 << 20  # the same where every shape has blocks of its own
MOST_OUTPUTS = 8


def join_siblings(
    clusters: Sequence[Cluster], number: Mapping[Node, int], target: Target
) -> list[Cluster]:
    """The clusters in order, later ones having taken in earlier ones that nobody reads before
    them.
    """
    place = {c: i for i, c in enumerate(clusters)}
    first_read: dict[Node, int] = {}  # the first cluster that reads a value
    reads = {c: _reads(c) for c in clusters}
    for c in clusters:
        for node in reads[c]:
            first_read.setdefault(node, place[c])
    gone: set[Cluster] = set()
    # the last cluster of a shape that reads an operand, and the last tiny one
    latest: dict[object, Cluster] = {}
    for cluster in clusters:
        went()
        if cluster.kind is not Kind.ELEMENTWISE or _only_reshapes(cluster):
            continue
        shape = cluster.anchor.shape
        keys: list[object] = [
            (node, shape)
            for node in reads[cluster]
            if node.shape == shape and not is_immediate(node)
        ]
        if _written(cluster) <= (GPU_TINY if target.device == "gpu" else TINY):
            keys.append("tiny")
        for key in keys:
            other = latest.get(key)
            if other is None or other is cluster or other in gone:
                continue
            free = all(first_read.get(o, len(clusters)) > place[cluster] for o in other.outputs)
            small = len(cluster.members) + len(other.members) <= MAX_NODES
            if free and small and len(cluster.outputs) + len(other.outputs) <= MOST_OUTPUTS:
                cluster.members.update(other.members)
                cluster.outputs.update(other.outputs)
                cluster.notes["side by side"] = None
                reads[cluster] |= reads[other]
                gone.add(other)
        for key in keys:
            latest[key] = cluster
    return [c for c in clusters if c not in gone]


def _reads(cluster: Cluster) -> dict[Node, None]:
    return {i: None for n in cluster.members for i in n.inputs if i not in cluster.members}


def _written(cluster: Cluster) -> int:
    return sum(map(cost.nbytes, cluster.outputs))


def _only_reshapes(cluster: Cluster) -> bool:
    return len(cluster.members) == 1 and isinstance(cluster.anchor.op, view.Reshape)
