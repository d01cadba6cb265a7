"""Chooses the tile of flash attention, and whether there is one."""

from __future__ import annotations

from dataclasses import dataclass

from xlac.codegen.core.attention_problem import AttentionProblem
from xlac.codegen.gpu.core.grid import at_least, check_shared, check_threads
from xlac.codegen.gpu.core.instructions import COLUMNS, LANES, MMA, ROWS
from xlac.codegen.schedules.gpu.attention import FlashAttentionSchedule
from xlac.codegen.schedules.schedule import Misfit
from xlac.ir.dims import size_hint
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive
KEYS = (64, 32, 16)  # candidates for the keys of a tile, the best first


STAGES, MOST_STAGES = 2, 4


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
        and _tile(dtype, widths, 1, KEYS[1]).shared_bytes <= target.shared_bytes
    )
    return fits and (dtype is F32 or MMA[dtype] in target.instructions)


def _tile(
    dtype: DType, widths: tuple[int, int], warps: int, keys: int, stages: int = STAGES
) -> FlashTile:
    width, wide = (max(2 * COLUMNS, at_least(w)) for w in widths)
    return FlashTile(dtype, warps, width, wide, keys, stages)


def tile_of(schedule: FlashAttentionSchedule, h: AttentionProblem) -> FlashTile:
    """The tile by a schedule."""
    return _tile(h.dtype, h.widths, schedule.warps, schedule.keys, schedule.stages)


def check(schedule: FlashAttentionSchedule, h: AttentionProblem, target: Target) -> None:
    """Raises Misfit for tiles that do not fit a block, or that this attention cannot have."""
    if not takes(h.widths, h.dtype, target):
        raise Misfit(("template",), "fragments of these types and widths are not supported")
    if schedule.warps & (schedule.warps - 1):
        raise Misfit(("warps",), "it must be a power of two")
    check_threads(schedule.warps * target.warp, target, path=("warps",))
    if schedule.keys & (schedule.keys - 1) or not KEYS[-1] <= schedule.keys <= 2 * KEYS[0]:
        raise Misfit(("keys",), f"it must be a power of two from {KEYS[-1]} to {2 * KEYS[0]}")
    if not STAGES <= schedule.stages <= MOST_STAGES:
        raise Misfit(("stages",), f"it must be from {STAGES} to {MOST_STAGES}")
    check_shared(tile_of(schedule, h).shared_bytes, target, ("keys",))


def choose(h: AttentionProblem, target: Target) -> FlashAttentionSchedule:
    """The schedule with the best tile for an attention."""
    tile = _chosen(h, target)
    return FlashAttentionSchedule(tile.warps, tile.keys, tile.stages)


def _chosen(h: AttentionProblem, target: Target) -> FlashTile:
    """As many warps as there are rows and SHARED memory for, with tiles of few keys if registers
    are full of results; without tensor cores half as large blocks, of which two run at once.
    """
    by_threads = MMA[h.dtype] not in target.instructions
    room = target.shared_bytes // 2 if by_threads else target.shared_bytes
    full = (
        0 if by_threads else 2 if max(h.widths) > 128 else int(max(h.widths) * h.dtype.nbytes > 256)
    )
    for warps in (4, 2) if by_threads else (8, 4, 2):
        for keys in KEYS[full:]:
            tile = _tile(h.dtype, h.widths, warps, keys)
            fits = warps * target.warp <= target.block_threads and tile.shared_bytes <= room
            if fits and tile.rows <= 2 * size_hint(h.rows):
                return tile
    return next(
        t
        for t in (_tile(h.dtype, h.widths, 1, keys) for keys in KEYS)
        if t.shared_bytes <= target.shared_bytes
    )
