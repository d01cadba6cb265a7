"""Epilogues on CPUs whose vectors would be gathered from a transposed operand.

A contraction's epilogue computes vectors along the result's last axis. Where an operand is read
through a transpose that moves this axis, each of its vectors is a gather that touches as many cache
lines as it has lanes; a kernel that transposes squares in registers first takes a fraction of that.
"""

from __future__ import annotations

from xlac.fusion import cost
from xlac.fusion.cluster import Cluster
from xlac.fusion.group import Kind
from xlac.ir.graph import Node
from xlac.ops.tensor.view import Transpose
from xlac_sdk.target import Target


def is_gathered(cluster: Cluster, user: Node, node: Node, target: Target) -> bool:
    """Whether an epilogue's node would read an operand in gathers. Not where the result is
    transposed before that node: then rows may be what its vectors are along.
    """
    if target.device != "cpu" or cluster.kind not in (Kind.DOT, Kind.CONV):
        return False
    if not isinstance(node.op, Transpose) or cost.elements(node) != cost.elements(cluster.anchor):
        return False
    if any(isinstance(v.op, Transpose) for v in cluster.paths.get(user, (node,))):
        return False
    moved = [a for a in node.op.perm if node.inputs[0].shape[a] != 1]
    return bool(moved) and moved[-1] != max(moved)
