"""Schedules of contractions on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from xlac.codegen.schedules.schedule import Part, Positive, Schedule

Pair = tuple[Positive, Positive]
"""Of rows and of columns."""


@dataclass(frozen=True, slots=True)
class OperandStaging(Part):
    """How tiles of an operand come to SHARED memory: in vectors of `lanes`, which lie along the sum
    (`depth`) or along the operand's rows or columns (`side`); `asynchronous`, the machine copies
    them while threads multiply, else through registers.
    """

    lanes: Positive
    along: Literal["depth", "side"]
    asynchronous: bool


@dataclass(frozen=True, slots=True)
class SkinnyGemmSchedule(Schedule):
    """For an operand of few rows. A thread reads `lanes` elements of the large operand at once,
    along the sum or across columns as the operand lies, and takes `few` rows of the small one at a
    time. `across` threads of a warp are next to each other across columns; the others, and the
    `warps` of a block, share the sum. A thread begins `ahead` reads of the large operand before it
    needs the first.
    """

    template: ClassVar[str] = "skinny_gemm"
    few: Positive
    lanes: Positive
    across: Positive
    warps: Positive
    ahead: Positive


@dataclass(frozen=True, slots=True)
class SimtGemmSchedule(Schedule):
    """Ordinary arithmetic: blocks of `warps`, each thread with `pieces` vectors of results down and
    across. The sum is cut into `split_k` parts, which a second kernel adds. `stages` of operands
    are in SHARED memory, where the steps of their tiles are `pitches` elements apart. With an
    `epilogue_loop`, what follows is a loop over a thread's results, not written out for each.
    """

    template: ClassVar[str] = "simt_gemm"
    warps: Pair
    pieces: Pair
    split_k: Positive
    stages: Positive
    pitches: Pair
    left: OperandStaging
    right: OperandStaging
    epilogue_loop: bool


@dataclass(frozen=True, slots=True)
class TensorCoreGemmSchedule(Schedule):
    """Tensor cores, a warp an instruction: blocks of `warps`, each with `products` of the cores
    down and across. The sum is cut into `split_k` parts, which a second kernel adds. The rest is as
    in `simt_gemm`.
    """

    template: ClassVar[str] = "tensor_core_gemm"
    warps: Pair
    products: Pair
    split_k: Positive
    stages: Positive
    left: OperandStaging
    right: OperandStaging
    epilogue_loop: bool


@dataclass(frozen=True, slots=True)
class WgmmaSchedule(Schedule):
    """Tensor cores, four warps an instruction: blocks of so many `groups` of four warps, and
    `stages` of operands in SHARED memory. The sum is cut into `split_k` parts.
    """

    template: ClassVar[str] = "wgmma"
    groups: Positive
    stages: Positive
    split_k: Positive
    epilogue_loop: bool


@dataclass(frozen=True, slots=True)
class WarpSpecializedSchedule(Schedule):
    """The same, with another group of warps that brings operands by the copy engine."""

    template: ClassVar[str] = "warp_specialized_gemm"
    groups: Positive
    stages: Positive
    split_k: Positive
    epilogue_loop: bool


TiledSchedule = SimtGemmSchedule | TensorCoreGemmSchedule | WgmmaSchedule | WarpSpecializedSchedule
GpuContraction = SkinnyGemmSchedule | TiledSchedule
GPU_CONTRACTIONS = (
    SkinnyGemmSchedule,
    SimtGemmSchedule,
    TensorCoreGemmSchedule,
    WgmmaSchedule,
    WarpSpecializedSchedule,
)
