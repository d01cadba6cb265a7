"""Joins elementwise clusters: one that reads another's elements at the index where it writes them;
and independent ones of one shape that share an operand, or are tiny.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from xlac.fusion import cost
from xlac.fusion.buffers import buffers_of
from xlac.fusion.cluster import MAX_NODES, Cluster, is_pointwise
from xlac.fusion.group import Kind, is_immediate
from xlac.ir.graph import Node
from xlac.ops.tensor import view
from xlac_sdk.support.limits import count_work
from xlac_sdk.target import Target

TINY = 1 << 12  # bytes written by clusters that are joined whatever their shapes
GPU_TINY = 1 << 20  # the same on a GPU, where each shape has blocks of its own
MOST_OUTPUTS = 8


def join_readers(
    clusters: Sequence[Cluster],
    number: Mapping[Node, int],
    results: Container[Node],
    target: Target,
    apart: Container[Node] = frozenset(),
) -> list[Cluster]:
    """The clusters in order, without those merged into an earlier one of the same shape.

    A cluster is merged where all that it reads is in memory when the earlier one runs, or is
    computed by it at the same index and not to be kept `apart`. A value that only the merged
    cluster read is no longer written to memory (such as an optimizer's moment, selected by whether
    the loss is finite and read by the weight's update).
    """
    place = {c: i for i, c in enumerate(clusters)}
    maker = {node: c for c in clusters for node in c.outputs}
    readers: dict[Node, set[Cluster]] = {}
    for c in clusters:
        for node in _reads(c):
            readers.setdefault(node, set()).add(c)
    gone: set[Cluster] = set()
    for cluster in clusters:
        count_work()
        if cluster.kind is not Kind.ELEMENTWISE or _only_reshapes(cluster):
            continue
        makers = {i: maker[i] for i in _reads(cluster) if i in maker}
        first = max(makers.values(), key=place.__getitem__, default=None)
        if first is None or not _continues(cluster, first, number):
            continue
        if any(node in apart for node in makers if maker[node] is first):
            continue
        if not _few_buffers((first, cluster), target):
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
    """Whether a cluster reads the first one's outputs element by element, so that one kernel can
    compute both.
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
    """The clusters in order, with independent siblings merged: each takes in earlier ones whose
    results are not read before it.
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
        count_work()
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
            small &= len(cluster.outputs) + len(other.outputs) <= MOST_OUTPUTS
            if free and small and _few_buffers((cluster, other), target):
                cluster.members.update(other.members)
                cluster.outputs.update(other.outputs)
                cluster.notes["side by side"] = None
                reads[cluster] |= reads[other]
                gone.add(other)
        for key in keys:
            latest[key] = cluster
    return [c for c in clusters if c not in gone]


def _few_buffers(clusters: Sequence[Cluster], target: Target) -> bool:
    """Whether a launch takes the buffers of a kernel for all of the clusters."""
    return not target.most_buffers or buffers_of(clusters) <= target.most_buffers


def _reads(cluster: Cluster) -> dict[Node, None]:
    return {i: None for n in cluster.members for i in n.inputs if i not in cluster.members}


def _written(cluster: Cluster) -> int:
    return sum(map(cost.nbytes, cluster.outputs))


def _only_reshapes(cluster: Cluster) -> bool:
    return len(cluster.members) == 1 and isinstance(cluster.anchor.op, view.Reshape)
