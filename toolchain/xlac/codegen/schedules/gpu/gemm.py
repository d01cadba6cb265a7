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
    along the sum (`along_depth`) or along columns, and multiplies them by `few` rows of the small
    one at a time; `vector` of its sums are one vector. `across` threads of a warp are adjacent
    along columns; the others, and the `warps` of a block, share the sum. A thread starts `ahead`
    loads of the large operand before it uses the first.
    """

    template: ClassVar[str] = "skinny_gemm"
    few: Positive
    lanes: Positive
    along_depth: bool
    vector: Positive
    across: Positive
    warps: Positive
    ahead: Positive


@dataclass(frozen=True, slots=True)
class SimtGemmSchedule(Schedule):
    """Without tensor cores. A block has `warps`, each thread `pieces` vectors of results: numbers
    of rows and of columns. The sum is split into `split_k` parts, which a second kernel (`combine`)
    adds: a block has `threads`, and each of them `lanes` adjacent results. `stages` tiles of each
    operand are in SHARED memory at once, where the steps of the sum are `pitches` elements apart.
    With an `epilogue_loop`, the epilogue is a loop over a thread's results instead of unrolled.
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
    """Tensor cores, with instructions for a warp. A block has `warps`, each of them `products` of
    the instruction's tiles: numbers of rows and of columns. The other fields are as in `simt_gemm`.
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
    """Tensor cores, with instructions for a warpgroup. A block has `groups` warpgroups, and
    `stages` tiles of each operand in SHARED memory at once. The other fields are as in `simt_gemm`.
    """

    template: ClassVar[str] = "wgmma"
    groups: Positive
    stages: Positive
    split_k: Positive
    combine: AddPartsKernel | None
    epilogue_loop: bool


@dataclass(frozen=True, slots=True)
class WarpSpecializedSchedule(Schedule):
    """The same, with another warpgroup that starts TMA copies of operands. Tiles are computed in
    bands of `band` rows of tiles, column by column within a band, so that blocks that run at the
    same time share operands in the L2 cache; 0 for one band of all rows.
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
