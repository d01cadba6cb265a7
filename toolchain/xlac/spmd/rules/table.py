"""The rule of every operation: a table by class; operations without an entry are computed whole by
every rank.
"""

from __future__ import annotations

from collections.abc import Callable

from xlac.ir.graph import Node
from xlac.ir.op import Elementwise
from xlac.ops.collective.shard import Shard
from xlac.ops.control.control import Call, Cond, Scan, While
from xlac.ops.nn.attention import Attention
from xlac.ops.nn.attention_derivatives import AttentionGradient, AttentionSums
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac.ops.reduction.cumulative import Cumulative
from xlac.ops.reduction.order import Sort
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.reduction.window import Window
from xlac.ops.tensor.dynamic import DimSize
from xlac.ops.tensor.dynamic_slice import DynSlice, DynUpdate
from xlac.ops.tensor.extend import Concat, Pad
from xlac.ops.tensor.gather import Gather
from xlac.ops.tensor.leaf import Const, Iota
from xlac.ops.tensor.reorder import Roll
from xlac.ops.tensor.scatter import Scatter
from xlac.ops.tensor.view import Broadcast, Reshape, Slice, Transpose
from xlac.spmd.rules import attention, control, indexing, sums, views
from xlac.spmd.rules.rule import ShardingRule, whole

RULES: dict[type, Callable[[Node], ShardingRule]] = {
    Attention: attention.attention,
    AttentionGradient: attention.attention,
    AttentionSums: attention.attention,
    Broadcast: views.broadcast,
    Concat: views.concat,
    Const: whole,
    Conv: sums.conv,
    Cumulative: sums.lines,
    DimSize: whole,
    Dot: sums.dot,
    DynSlice: views.dyn_slice,
    DynUpdate: views.dyn_update,
    Gather: indexing.gather,
    Iota: views.iota,
    Pad: views.pad,
    Reduce: sums.reduce,
    Reshape: views.reshape,
    Roll: views.roll,
    Scatter: indexing.scatter,
    Shard: views.pointwise,
    Slice: views.sliced,
    Sort: sums.lines,
    Transpose: views.transpose,
    Window: sums.window,
}


def rule_of(node: Node) -> ShardingRule:
    """The rule of a node. Scalar functions are alike and need no entry."""
    if isinstance(node.op, Call | Cond | Scan | While):
        return control.rule(node, rule_of)
    own = RULES.get(type(node.op))
    if own is not None:
        return own(node)
    shapes = {i.shape for i in node.inputs if len(i.results) == 1 and i.type.rank}
    if isinstance(node.op, Elementwise) and len(node.results) == 1 and shapes <= {node.shape}:
        return views.pointwise(node)
    return whole(node)
