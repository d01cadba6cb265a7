"""Schedules of contractions on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from xlac.codegen.schedules.schedule import Natural, Part, Positive, Schedule

Pair = tuple[Positive, Positive]
"""Numbers for rows and for columns."""


@dataclass(frozen=True, slots=True)
class OperandStaging(Part):
    """How tiles of an operand are staged in SHARED memory: in vectors of `lanes`, along the sum
    (`depth`) or along the operand's rows or columns (`side`); `asynchronous` copies run while
    threads multiply, others go through registers.
    """

    lanes: Positive
    along: Literal["depth", "side"]
    asynchronous: bool


@dataclass(frozen=True, slots=True)
class AddPartsKernel(Part):
    """The kernel that adds partial sums: a thread has `lanes` adjacent results, a block
    `threads`.
    """

    lanes: Positive
    threads: Positive


@dataclass(frozen=True, slots=True)
class SkinnyGemmSchedule(Schedule):
    """For an operand of few rows. A thread loads `lanes` elements of the large operand at once,
    along the sum or along columns, whichever is contiguous, and takes `few` rows of the small one
    at a time. `across` threads of a warp are adjacent along columns; the others, and the `warps` of
    a block, share the sum. A thread starts `ahead` loads of the large operand before it uses the
    first.
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
    across. The sum is split into `split_k` parts, which a second kernel (`combine`) adds: a block
    has
    `threads`, and each of them `lanes` adjacent results. `stages` of operands are in SHARED memory,
    where the steps of their tiles are `pitches` elements apart. With an `epilogue_loop`, the
    epilogue is a loop over a thread's results instead of unrolled.
    """

    template: ClassVar[str] = "simt_gemm"
    warps: Pair
    pieces: Pair
    split_k: Positive
    combine: AddPartsKernel | None
    stages: Positive
    pitches: Pair
    left: OperandStaging
    right: OperandStaging
    epilogue_loop: bool


@dataclass(frozen=True, slots=True)
class TensorCoreGemmSchedule(Schedule):
    """Tensor cores, with instructions for a warp: blocks of `warps`, each with `products` of the
    cores down and across. The other fields are as in `simt_gemm`.
    """

    template: ClassVar[str] = "tensor_core_gemm"
    warps: Pair
    products: Pair
    split_k: Positive
    combine: AddPartsKernel | None
    stages: Positive
    left: OperandStaging
    right: OperandStaging
    epilogue_loop: bool


@dataclass(frozen=True, slots=True)
class WgmmaSchedule(Schedule):
    """Tensor cores, with instructions for a warpgroup: blocks of `groups` warpgroups, and `stages`
    of operands in SHARED memory. The other fields are as in `simt_gemm`.
    """

    template: ClassVar[str] = "wgmma"
    groups: Positive
    stages: Positive
    split_k: Positive
    combine: AddPartsKernel | None
    epilogue_loop: bool


@dataclass(frozen=True, slots=True)
class WarpSpecializedSchedule(Schedule):
    """The same, with another warpgroup that starts TMA copies of operands. With a `band`, the order
    of tiles is: those of so many rows of tiles, column by column, then the next `band`, so that
    blocks that run together share operands in the second cache; 0 for one band of all rows.
    """

    template: ClassVar[str] = "warp_specialized_gemm"
    groups: Positive
    stages: Positive
    band: Natural
    split_k: Positive
    combine: AddPartsKernel | None
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
