"""Schedules of attention on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.core.contraction.tiling import RegisterTile
from xlac.codegen.schedules.schedule import Positive, Schedule, Threads


@dataclass(frozen=True, slots=True)
class ScoreBlocks(Schedule):
    """The blocks of attention that does not store its scores."""

    tile: RegisterTile
    tiles: Positive
    keys: Positive
    score_vectors: Positive

    @property
    def rows(self) -> int:
        """Queries of a block."""
        return self.tiles * self.tile.rows[1]

    @property
    def wide(self) -> int:
        """Scores that are processed at once."""
        return self.score_vectors * self.tile.lanes


@dataclass(frozen=True, slots=True)
class OnlineSoftmaxSchedule(ScoreBlocks):
    """Attention without storing its scores. A block of queries, of `tiles` register tiles of
    scores, iterates over the keys, `keys` at a time; the softmax of `score_vectors` vectors of
    scores is computed at once, and vectors along the width of values have `value_lanes`. `threads`
    share the blocks of all heads, as one loop.
    """

    template: ClassVar[str] = "online_softmax"
    value_lanes: Positive
    threads: Threads


@dataclass(frozen=True, slots=True)
class AttentionGradientSchedule(ScoreBlocks):
    """The gradient of attention, without storing its scores. A block of queries, of `tiles`
    register tiles of scores, iterates over the keys, `keys` at a time; the softmax of
    `score_vectors` vectors of scores is computed at once. Vectors along the width of queries and
    keys have `query_lanes`, those along the width of values `value_lanes`. `threads` share the loop
    over batches and key heads.
    """

    template: ClassVar[str] = "attention_gradient"
    query_lanes: Positive
    value_lanes: Positive
    threads: Threads
