"""Cuts off epilogues on CPUs that would store more bytes than the values they are computed from.

    sums, scaled and rounded to u8, and converted to f32 again for two kernels that read it

Then the u8 values are stored, and each reader dequantizes them: a few operations for a quarter of
the memory traffic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xlac.fusion import cost
from xlac.fusion.cluster import Cluster, is_pointwise, is_view
from xlac.ir.graph import Node
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.reduction.window import Window
from xlac.ops.tensor.leaf import Const
from xlac.ops.tensor.view import Broadcast
from xlac_sdk.target import Target

Users = Mapping[Node, Sequence[Node]]
MOST = 8  # operations per element; with more, readers do not recompute it


def widening(
    cluster: Cluster, target: Target, users: Users, kept: set[Node], floats: Callable[[Node], bool]
) -> list[Node]:
    """The nodes of a cluster that readers recompute from a narrower value. `users` are those of the
    whole graph, `kept` its results; `floats` tells which nodes are computed where they are read.
    """
    if target.device != "cpu":
        return []
    late: dict[Node, None] = {}
    for node in reversed(cluster.members):
        outside = [user for user in users[node] if user not in late]
        if node in kept or not users[node] or any(user in cluster.members for user in outside):
            continue
        if all(_absorbs(user, users, kept) for user in outside):
            late.update(dict.fromkeys(_after_narrower(node, cluster, users, kept, late, floats)))
    return list(late)


def _absorbs(user: Node, users: Users, kept: set[Node], depth: int = 4) -> bool:
    """Whether a reader computes its operand itself, elementwise."""
    if is_pointwise(user) or isinstance(user.op, Reduce):
        return True
    if not is_view(user) or user in kept or not depth:
        return False
    return all(_absorbs(one, users, kept, depth - 1) for one in users[user])


def _after_narrower(
    node: Node,
    cluster: Cluster,
    users: Users,
    kept: set[Node],
    late: Mapping[Node, None],
    floats: Callable[[Node], bool],
) -> list[Node]:
    """A node and those between it and a narrower value that the cluster also computes; empty where
    there is none.
    """
    chain, one, operations = [node], node, 0
    while True:
        inside = [i for i in dict.fromkeys(one.inputs) if i in cluster.members]
        operations += cost.weight(one.op)
        beside = all(i in inside or _is_small(i, floats) for i in one.inputs)
        if not is_pointwise(one) or not beside or len(inside) != 1 or operations > MOST:
            return []
        (one,) = inside
        if one is cluster.anchor and not isinstance(one.op, Window):
            return []  # sums are as wide as what is computed from them
        if cost.nbytes(one) < cost.nbytes(node):
            return chain
        if one is cluster.anchor:
            return []
        others = [user for user in users[one] if user not in chain and user not in late]
        if one in kept or others:
            return []
        chain.append(one)


def _is_small(node: Node, floats: Callable[[Node], bool]) -> bool:
    """Whether another operand is a scalar, or a vector along one axis."""
    if isinstance(node.op, Const):
        return node.type.size == 1 or node.type.rank == 1
    return isinstance(node.op, Broadcast) and floats(node) and node.inputs[0].type.rank <= 1
