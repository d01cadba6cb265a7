"""The tile of flash attention, and whether there is one."""

from __future__ import annotations

from dataclasses import dataclass

from xlac.codegen.core.attention_problem import AttentionProblem
from xlac.codegen.gpu.core.grid import at_least
from xlac.codegen.gpu.core.instructions import COLUMNS, LANES, MMA, ROWS
from xlac.codegen.schedules.gpu.attention import FlashAttentionSchedule
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive
LEAST_KEYS, LEAST_STAGES = 32, 2  # for which a block must have room
WIDEST = {2: 256, 4: 128}  # maximal width of queries, keys or values, by the bytes of an element


F32 = DType.F32


@dataclass(frozen=True, slots=True)
class FlashTile:
    """Warps of a block, each with 16 rows; the widths of keys and values padded to powers of two;
    keys of a tile, and tiles in SHARED memory.
    """

    dtype: DType
    warps: int
    width: int
    wide: int
    keys: int
    stages: int

    @property
    def rows(self) -> int:
        """Query rows of a block."""
        return self.warps * ROWS

    @property
    def shared_bytes(self) -> int:
        """SHARED memory of a block: queries, weights, and stages of keys and values."""
        return self.dtype.nbytes * (
            self.rows * (self.width + self.keys)
            + self.stages * self.keys * (self.width + self.wide)
        )


def takes(widths: tuple[int, int], dtype: DType, target: Target) -> bool:
    """Whether the kernel supports the type (16-bit floats on tensor cores, or f32) and the widths,
    whose sums must fit in registers.
    """
    if (
        target.warp != LANES
        or target.block_threads < target.warp
        or dtype not in MMA
        or not dtype.is_float
    ):
        return False
    fits = (
        max(widths) <= WIDEST[dtype.nbytes]
        and padded(dtype, widths, 1, LEAST_KEYS, LEAST_STAGES).shared_bytes <= target.shared_bytes
    )
    return fits and (dtype is F32 or MMA[dtype] in target.instructions)


def padded(dtype: DType, widths: tuple[int, int], warps: int, keys: int, stages: int) -> FlashTile:
    """A tile for these widths, padded."""
    width, wide = (max(2 * COLUMNS, at_least(w)) for w in widths)
    return FlashTile(dtype, warps, width, wide, keys, stages)


def tile_of(schedule: FlashAttentionSchedule, h: AttentionProblem) -> FlashTile:
    """The tile by a schedule."""
    return padded(h.dtype, h.widths, schedule.warps, schedule.keys, schedule.stages)
