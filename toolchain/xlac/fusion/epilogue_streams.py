"""Cuts off epilogues on CPUs that read several tensors as large as the result.

A contraction stores its result tile by tile: a few short pieces of rows that lie far apart. Further
tensors that its epilogue reads are read in such pieces too. One is hidden behind the arithmetic;
pieces of several compete for the same cache sets and pages, and then a separate kernel that streams
through memory after the product is faster, though it reads the product again. An optimizer's update
of a weight is the usual case. It takes an array of the result's size more, so an epilogue is left
whole where the target's `temporary_bytes` has no room for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xlac.fusion import cost
from xlac.fusion.cluster import Cluster
from xlac.fusion.group import Kind
from xlac.ir.graph import Node
from xlac_sdk.target import Target

MOST = 1  # tensors of the result's size that an epilogue may read; with more it is cut off


def superfluous(
    cluster: Cluster,
    target: Target,
    users: Mapping[Node, Sequence[Node]],
    kept: set[Node],
    floats: Callable[[Node], bool],
) -> list[Node]:
    """The nodes of a cluster that are cheaper to compute after it; none where its epilogue is fine,
    or where there is no room for the array between the two kernels.

    `users` are those of the whole graph, `kept` its results; `floats` tells which nodes are
    computed where they are read.
    """
    nbytes, room = cost.nbytes(cluster.anchor), target.temporary_bytes
    small = nbytes <= target.shipped.hardware.l2_room // 2
    if target.device != "cpu" or cluster.kind not in (Kind.DOT, Kind.CONV) or small:
        return []
    late = _cut(cluster, users, kept, floats)
    inside = set(late)
    written = [n for n in late if n in kept or any(user not in inside for user in users[n])]
    if 0 < room < nbytes and all(n in kept for n in written):  # results are not in the arena
        return []
    return late


def _cut(
    cluster: Cluster,
    users: Mapping[Node, Sequence[Node]],
    kept: set[Node],
    floats: Callable[[Node], bool],
) -> list[Node]:
    """The end of an epilogue, if it reads too many streams: it is cut before the first of them,
    where that moves the fewest bytes.
    """
    nodes = list(cluster.members)
    first = nodes.index(cluster.anchor) + 1
    size = cost.elements(cluster.anchor)
    if len(_streams(nodes[first:], set(nodes), size, floats)) <= MOST:
        return []

    def moved(end: int) -> int:
        """Bytes read and written by an epilogue of `nodes[:end]` and the kernel after it."""
        early, late = set(nodes[:end]), set(nodes[end:])
        beside = _streams(nodes[first:end], early, size, floats)
        if beside:
            return 1 << 62
        after = _streams(nodes[end:], late, size, floats)
        written = [
            n
            for part in (early, late)
            for n in part
            if n in kept or any(user not in part for user in users[n])
        ]
        return sum(map(cost.nbytes, (*after, *written)))

    return nodes[min(range(first, len(nodes)), key=moved) :]


def _streams(
    nodes: Sequence[Node], inside: set[Node], size: int, floats: Callable[[Node], bool]
) -> set[Node]:
    """The tensors of `size` elements in memory that `nodes` read and that are not `inside`."""
    streamed: set[Node] = set()
    seen, stack = set(inside), [i for n in nodes for i in n.inputs]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if floats(node):
            stack += node.inputs
        elif cost.elements(node) == size:
            streamed.add(node)
    return streamed
