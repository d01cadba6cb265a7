"""Joins elementwise clusters: those that read another's elements where it writes them; and those
that do not need each other, of one shape that share an operand, or tiny.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from xlac.fusion import cost
from xlac.fusion.cluster import MAX_NODES, Cluster, is_pointwise
from xlac.fusion.group import Kind, is_immediate
from xlac.ir.graph import Node
from xlac.ops.tensor import view
from xlac_sdk.support.limits import went
from xlac_sdk.target import Target

TINY = 1 << 12  # bytes written by clusters that are joined whatever their shapes
GPU_TINY = 1 << 20  # the same where every shape has blocks of its own
MOST_OUTPUTS = 8


def join_readers(
    clusters: Sequence[Cluster], number: Mapping[Node, int], results: Container[Node]
) -> list[Cluster]:
    """The clusters in order, without those that an earlier one of their shape took in: all that
    they read is there when that one runs, or is what it computes, at the same index. A value that
    only they read is written to memory no longer (what an optimizer keeps, chosen by whether the
    loss is finite, where the weight's update needs it as well).
    """
    place = {c: i for i, c in enumerate(clusters)}
    maker = {node: c for c in clusters for node in c.outputs}
    readers: dict[Node, set[Cluster]] = {}
    for c in clusters:
        for node in _reads(c):
            readers.setdefault(node, set()).add(c)
    gone: set[Cluster] = set()
    for cluster in clusters:
        went()
        if cluster.kind is not Kind.ELEMENTWISE or _only_reshapes(cluster):
            continue
        made = {i: maker[i] for i in _reads(cluster) if i in maker}
        first = max(made.values(), key=place.__getitem__, default=None)
        if first is None or not _continues(cluster, first, number):
            continue
        first.members.update(cluster.members)
        first.outputs.update(cluster.outputs)
        first.notes["with what reads it"] = None
        gone.add(cluster)
        for node in _reads(cluster):
            readers[node] = readers[node] - {cluster} | {first}
        for node in cluster.outputs:
            maker[node] = first
        for node in [n for n in first.outputs if n not in results and readers.get(n) == {first}]:
            del first.outputs[node]
    return [c for c in clusters if c not in gone]


def _continues(cluster: Cluster, first: Cluster, number: Mapping[Node, int]) -> bool:
    """Whether a cluster reads what the other writes element by element, so that one kernel does the
    work of both.
    """
    if first.kind is not Kind.ELEMENTWISE or _only_reshapes(first):
        return False
    shape = first.anchor.shape
    if (
        len(first.members) + len(cluster.members) > MAX_NODES
        or len(first.outputs) + len(cluster.outputs) > MOST_OUTPUTS
        or any(node.shape != shape for node in (*first.outputs, *cluster.outputs))
    ):
        return False
    fed = set(first.outputs)
    for node in sorted(cluster.members, key=number.__getitem__):
        if fed.isdisjoint(node.inputs):
            continue
        if node.shape != shape or not is_pointwise(node):
            return False
        fed.add(node)
    return True


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
