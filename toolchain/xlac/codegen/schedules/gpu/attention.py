"""Schedules of attention on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.gpu.gemm import OperandStaging
from xlac.codegen.schedules.schedule import Part, Positive, Schedule


@dataclass(frozen=True, slots=True)
class FlashStaging(Part):
    """How each operand's tiles come to SHARED memory."""

    queries: OperandStaging
    keys: OperandStaging
    values: OperandStaging


@dataclass(frozen=True, slots=True)
class FlashAttentionSchedule(Schedule):
    """For many queries. A block has `warps`, each with 16 rows of queries, and iterates over tiles
    of `keys` keys; `stages` tiles of keys and values are in SHARED memory at once. How they and the
    queries come there (`staging`) is as in `simt_gemm`.
    """

    template: ClassVar[str] = "flash_attention"
    warps: Positive
    keys: Positive
    stages: Positive
    staging: FlashStaging


@dataclass(frozen=True, slots=True)
class SplitKvDecodeSchedule(Schedule):
    """For few queries, `few` rows at a time. The keys of a head are shared by `splits` blocks of
    `warps`, whose threads hold `lanes` elements of a row in vectors of `part`; each loads `ahead`
    keys before it uses the first. If there are several blocks, the last to finish combines their
    results, or a kernel with blocks of `combine_threads` does.
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
