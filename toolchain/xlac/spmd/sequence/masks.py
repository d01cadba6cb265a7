"""The mask of attention around a ring, in blocks: of the queries that a rank has, and of the keys
that it has in each step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType

BATCH, SHARED, BLOCK, GROUP, QUERY, KEY, OTHER = range(7)
"""The axes of the scores of one step: key heads, blocks of queries, the queries that share a key
head; and blocks of keys beside those of queries.
"""


@dataclass(slots=True)
class BlockedMask:
    """A mask whose axes are those of scores in `axes`, or OTHER; `blocks` is its axis of blocks of
    keys, if it depends on keys. Where it has blocks of queries, too, those of keys are chosen in
    each step; else they go around with the keys.
    """

    node: Node
    axes: list[int]
    blocks: int | None
    steps: int = 0

    @staticmethod
    def of(mask: Node, sizes: tuple[int, int, int, int], shared: int, parts: int) -> BlockedMask:
        """A mask that broadcasts to scores of sizes (batch, heads, queries, keys)."""
        shape = (*(1,) * (4 - mask.type.rank), *mask.shape)
        whole = [given != 1 for given in shape]
        batch, heads, queries, keys = sizes
        cut: list[tuple[int, int]] = []
        if whole[0]:
            cut.append((BATCH, batch))
        if whole[1]:
            cut += [(SHARED, shared), (GROUP, heads // shared)]
        if whole[2]:
            cut += [(BLOCK, parts), (QUERY, queries // parts)]
        if whole[3]:
            cut += [(OTHER if whole[2] else BLOCK, parts), (KEY, keys // parts)]
        node = build.reshape(mask, tuple(size for _, size in cut))
        axes = [axis for axis, _ in cut]
        order = sorted(range(len(axes)), key=axes.__getitem__)
        ordered = sorted(axes)
        blocks = ordered.index(OTHER if whole[2] else BLOCK) if whole[3] else None
        return BlockedMask(build.transpose(node, tuple(order)), ordered, blocks)

    def next(self) -> Node:
        """The mask of the next step, with the axes that it has."""
        step, self.steps = self.steps, self.steps + 1
        if self.blocks is None:
            return self.node
        if self.axes[self.blocks] == BLOCK:
            if step:
                self.node = build.apply1("roll", self.node, shift=1, axis=self.blocks)
            return self.node
        parts = self.node.shape[self.blocks]
        assert isinstance(parts, int)
        there = build.compare(
            build.spread(build.iota((parts,), 0, DType.I32), (parts, parts), (1,)),
            "eq",
            build.spread(block_of_keys(parts, step), (parts, parts), (0,)),
        )
        where = (self.axes.index(BLOCK), self.blocks)
        chosen = build.spread(there, self.node.shape, where)
        if self.node.type.dtype is DType.BOOL:
            return build.reduce(build.apply1("and", chosen, self.node), "or", (self.blocks,))
        nothing = build.like(0.0, self.node)
        return build.reduce(build.select(chosen, self.node, nothing), "add", (self.blocks,))

    def on(self, scores: Node, hidden: float) -> tuple[Node, list[Node]]:
        """Scores of the next step: what is not seen is `hidden`, or something is added; and what is
        seen, if the mask hides any.
        """
        own = self.next()
        mask = build.spread(own, scores.shape, tuple(a for a in self.axes if a != OTHER))
        if own.type.dtype is DType.BOOL:
            return build.select(mask, scores, build.like(hidden, scores)), [mask]
        return build.add(scores, build.cast(mask, scores.type.dtype)), []


def block_of_keys(parts: int, step: int) -> Node:
    """Which block of keys each block of queries has in a step: that many before its own."""
    block = build.sub(build.iota((parts,), 0, DType.I32), step)
    return build.select(build.compare(block, "lt", 0), build.add(block, parts), block)


def finite(top: Node) -> Node:
    """The greatest score, or zero where nothing is seen yet, from which none can be subtracted."""
    none = build.compare(top, "eq", build.like(-np.inf, top))
    return build.select(none, build.like(0.0, top), top)
