"""Chooses the schedule of flash attention."""

from __future__ import annotations

from xlac.codegen.core.attention_problem import AttentionProblem
from xlac.codegen.gpu.attention import flash_staging
from xlac.codegen.gpu.attention.flash_tile import FlashTile, padded, takes, tile_of
from xlac.codegen.gpu.core.grid import check_shared, check_threads
from xlac.codegen.gpu.core.instructions import MMA
from xlac.codegen.schedules.gpu.attention import FlashAttentionSchedule
from xlac.codegen.schedules.schedule import Misfit
from xlac.ir.dims import size_hint
from xlac_sdk.target import Target

KEYS = (64, 32, 16)  # candidates for the keys of a tile, the best first
STAGES, MOST_STAGES = 2, 4


def choose(h: AttentionProblem, target: Target) -> FlashAttentionSchedule:
    """The schedule with the best tile for an attention."""
    tile = _chosen(h, target)
    staging = flash_staging.choose(h, tile, target)
    return FlashAttentionSchedule(tile.warps, tile.keys, tile.stages, staging)


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
            tile = padded(h.dtype, h.widths, warps, keys, STAGES)
            fits = warps * target.warp <= target.block_threads and tile.shared_bytes <= room
            if fits and tile.rows <= 2 * size_hint(h.rows):
                return tile
    return next(
        t
        for t in (padded(h.dtype, h.widths, 1, keys, STAGES) for keys in KEYS)
        if t.shared_bytes <= target.shared_bytes
    )


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
    tile = tile_of(schedule, h)
    check_shared(tile.shared_bytes, target, ("keys",))
    flash_staging.check(schedule.staging, h, tile, target)
