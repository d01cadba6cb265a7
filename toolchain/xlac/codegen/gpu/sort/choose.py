"""Chooses the tile that a block of the GPU merge sort sorts in SHARED memory."""

from __future__ import annotations

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.gpu.core.grid import at_least, check_shared, check_threads, threads_over
from xlac.codegen.schedules.gpu.order import GpuMergeSortSchedule
from xlac.codegen.schedules.schedule import Misfit
from xlac.ir.dims import Dim, upper_bound
from xlac_sdk.target import Target

TILE = 2048  # elements of a tile, if they fit SHARED memory and the block's threads
PER_THREAD = 8
TILE_BYTES = 40 << 10
THREADS = 256


def choose(target: Target, strings: Dim, count: Dim, each: int) -> GpuMergeSortSchedule:
    """The schedule for `strings` lines of `count` records of `each` bytes."""
    fit = TILE_BYTES // (2 * each)
    tile = min(
        TILE,
        PER_THREAD * target.block_threads,
        1 << fit.bit_length() - 1,
        at_least(max(1, upper_bound(count))),
    )
    most = min(THREADS, target.block_threads)
    side = max(1, most // tile)
    threads = max(target.warp, min(most, side * tile))
    merging = threads_over(target, [Run(strings, ()), Run(count, (0,))])
    return GpuMergeSortSchedule(tile, side, threads, merging)


def check(schedule: GpuMergeSortSchedule, target: Target, each: int) -> None:
    """Raises Misfit for tiles of records of `each` bytes that a block cannot have."""
    if schedule.tile & (schedule.tile - 1):
        raise Misfit(("tile",), "it must be a power of two")
    total = schedule.strings * schedule.tile
    check_shared(2 * total * each, target, ("strings" if schedule.strings > 1 else "tile",))
    check_threads(schedule.threads, target)
    check_threads(schedule.merge_threads, target, path=("merge_threads",))
