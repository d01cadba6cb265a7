"""Which axes of attention and its derivative go together. It carries what is known of them to other
values; they themselves go around a ring, or are expanded, before a graph is partitioned.
"""

from __future__ import annotations

from xlac.ir.graph import Node
from xlac.ops.nn.attention_derivatives import AttentionGradient
from xlac.spmd.rules.rule import Dims, FactorNumbers, ShardingRule, unchanged


def attention(node: Node) -> ShardingRule:
    """The batch, heads that share no keys, and the sequences of queries and of keys."""
    factors, (q, k, _) = FactorNumbers(), node.inputs[:3]
    batch = factors.new(q.shape[0])
    if q.type.rank == 4:
        times = factors.new(q.shape[2]), factors.new(k.shape[2])
        heads = factors.new(q.shape[1]) if q.shape[1] == k.shape[1] else None
        of_queries: Dims = (batch, heads, times[0], None)
        of_keys: Dims = (batch, heads, times[1], None)
    else:
        times = factors.new(q.shape[1]), factors.new(k.shape[1])
        heads = None
        of_queries, of_keys = (batch, times[0], None), (batch, times[1], None)
    sums: Dims = (batch, heads, times[0])
    operands: list[Dims] = [of_queries, of_keys, of_keys]
    results: tuple[Dims, ...] = (of_queries, sums, sums)
    if isinstance(node.op, AttentionGradient):
        operands += [of_queries, sums, sums, of_queries]
        results = (of_queries, of_keys, of_keys)
    operands += [(None,) * i.type.rank for i in node.inputs[len(operands) :]]
    results = results[: len(node.results)]
    return ShardingRule(tuple(operands), results, factors.sizes, unchanged(node))
