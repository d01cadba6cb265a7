"""Schedules of attention on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Positive, Schedule


@dataclass(frozen=True, slots=True)
class FlashAttentionSchedule(Schedule):
    """For many queries. A block has `warps`, each with 16 rows of queries, and goes over tiles of
    so many `keys`; `stages` tiles of keys and values are in SHARED memory at once.
    """

    template: ClassVar[str] = "flash_attention"
    warps: Positive
    keys: Positive
    stages: Positive


@dataclass(frozen=True, slots=True)
class SplitKvDecodeSchedule(Schedule):
    """For few queries, `few` rows at a time. The keys of a head are shared by `splits` blocks of
    `warps`, whose threads hold `lanes` elements of a row and work on `part` of them at once; each
    reads `ahead` keys before it needs the first. Where there are several blocks, the last to be
    done combines what all have found, or a kernel with blocks of `combine_threads`.
    """

    template: ClassVar[str] = "split_kv_decode"
    few: Positive
    lanes: Positive
    part: Positive
    warps: Positive
    splits: Positive
    ahead: Positive
    combine_threads: Positive | None


GpuAttentionSchedule = FlashAttentionSchedule | SplitKvDecodeSchedule
GPU_ATTENTION = (FlashAttentionSchedule, SplitKvDecodeSchedule)
