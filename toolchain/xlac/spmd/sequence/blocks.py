"""Attention in blocks of queries and of keys: those that a rank has in each step around a ring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.nn.attention import MaskedHeads
from xlac.spmd.sequence.masks import BlockedMask, block_of_keys
from xlac_sdk.dtypes import DType


@dataclass(eq=False)
class RingBlocks:
    """Queries, keys and values of an attention in so many blocks, and its masks. Queries are
    (batch, key heads, queries that share a key head, block, time, width), keys and values (batch,
    key heads, block, time, width); what is computed for each query of a step has the axes (batch,
    key heads, block, queries that share a key head, time, …).
    """

    op: MaskedHeads
    q: Node
    k: Node
    v: Node
    masks: Sequence[BlockedMask]
    added: bool  # whether scores may be -inf, all of a block's
    step: int = field(init=False, default=0)

    @staticmethod
    def of(
        op: MaskedHeads, inputs: Sequence[Node], masks: Sequence[Node], parts: int
    ) -> RingBlocks:
        """The blocks of queries, keys and values as the operation takes them."""
        q, k, v = inputs
        kv = op.kv_heads or op.heads
        q, k, v = op.apart(q, op.heads), op.apart(k, kv), op.apart(v, kv)
        heads, time = known(q.shape[1]), known(q.shape[2])
        shared, keys = known(k.shape[1]), known(k.shape[2])
        whole = (known(q.shape[0]), heads, time, keys)
        return RingBlocks(
            op,
            of_queries(q, shared, parts),
            _of_keys(k, parts),
            _of_keys(v, parts),
            [BlockedMask.of(mask, whole, shared, parts) for mask in masks],
            any(mask.type.dtype.is_float for mask in masks),
        )

    @property
    def wide(self) -> DType:
        """The type in which scores are computed."""
        return self.q.type.dtype.compute

    @property
    def scale(self) -> float:
        """The scale of scores."""
        width = known(self.q.shape[5])
        return float(width**-0.5 if self.op.scale is None else self.op.scale)

    def move(self) -> None:
        """The next step, in which each rank has the keys and values that its neighbour had."""
        self.step += 1
        self.k, self.v = moved_on(self.k), moved_on(self.v)

    def scores(self) -> tuple[Node, list[Node]]:
        """The scores of this step, and what is seen of it, by each mask that hides any."""
        axes = (((5,), (4,)), ((0, 1, 3), (0, 1, 2)), self.wide)
        scores = build.mul(build.dot(self.q, self.k, *axes), self.scale)
        lowest = float(np.finfo(self.wide.numpy).min)
        seen: list[Node] = []
        for mask in self.masks:
            scores, shown = mask.on(scores, lowest)
            seen += shown
        if self.op.causal:
            parts, time = known(self.q.shape[3]), known(self.q.shape[4])
            keys = known(self.k.shape[3])
            seen.append(_causal(scores, self.step, parts * (keys - time)))
            scores = build.select(seen[-1], scores, build.like(lowest, scores))
        return scores, seen

    def joined(self, x: Node, dtype: DType, rank: int) -> Node:
        """A result for each query (…, width), as the operation gives it."""
        return self.op.joined(build.cast(self.by_query(x), dtype), rank)

    def by_query(self, x: Node) -> Node:
        """A result for each query, as (batch, heads, time, …)."""
        order = (0, 1, 3, 2, 4, *range(5, x.type.rank))
        batch, shared, parts, group, time = map(known, x.shape[:5])
        return build.reshape(
            build.transpose(x, order), (batch, shared * group, parts * time, *x.shape[5:])
        )

    def by_key(self, x: Node, dtype: DType, rank: int) -> Node:
        """A result for each key, in blocks, as the operation takes keys."""
        batch, shared, parts, time, width = map(known, x.shape)
        whole = build.reshape(x, (batch, shared, parts * time, width))
        return self.op.joined(build.cast(whole, dtype), rank)


def of_queries(x: Node, shared: int, parts: int) -> Node:
    """What is given for each query, (batch, heads, time, …), in blocks."""
    batch, heads, time = map(known, x.shape[:3])
    return build.reshape(x, (batch, shared, heads // shared, parts, time // parts, *x.shape[3:]))


def _of_keys(x: Node, parts: int) -> Node:
    batch, shared, time, width = map(known, x.shape)
    return build.reshape(x, (batch, shared, parts, time // parts, width))


def moved_on(x: Node) -> Node:
    """Keys in blocks, of which each rank has what its neighbour had."""
    return build.apply1("roll", x, shift=1, axis=2)


def known(size: Dim) -> int:
    """A size that is fixed."""
    assert isinstance(size, int)
    return size


def _causal(scores: Node, step: int, more: int) -> Node:
    """Which keys a query sees: scores are (batch, heads, block, group, query, key), and a rank has
    in each step the keys of the block that many before its own. `more`: keys than queries.
    """
    parts, time, keys = (known(scores.shape[axis]) for axis in (2, 4, 5))
    block, others = build.iota((parts,), 0, DType.I32), block_of_keys(parts, step)
    first, second = (
        build.add(
            build.spread(build.mul(own, size), (parts, size), (0,)),
            build.spread(build.iota((size,), 0, DType.I32), (parts, size), (1,)),
        )
        for own, size in ((block, time), (others, keys))
    )
    query = build.add(build.spread(first, (parts, time, keys), (0, 1)), more)
    key = build.spread(second, (parts, time, keys), (0, 2))
    return build.spread(build.compare(key, "le", query), scores.shape, (2, 4, 5))
