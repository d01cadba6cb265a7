"""Chooses whether a contraction is computed by inner products, and the tile."""

from __future__ import annotations

from functools import cache

from xlac.codegen.core.contraction.contraction import Contraction
from xlac.codegen.core.contraction.tiling import TileSplit, even_split, split_of
from xlac.codegen.core.loop_nest import check_threads
from xlac.codegen.core.operands import OperandView
from xlac.codegen.core.strip_mining import UNROLLED
from xlac.codegen.cpu.gemm import register_tile
from xlac.codegen.cpu.gemm.cache_blocking import shared
from xlac.codegen.schedules.gemm import InnerProductSchedule
from xlac.codegen.schedules.schedule import Misfit
from xlac.ir.dims import Dim, size_hint, volume
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

FOLD = 6  # cycles to reduce the lanes of one accumulator


TURN = 0.5  # cycles for each element to transpose the right operand


def pays(c: Contraction, target: Target) -> bool:
    """Whether reading both operands along the sum is estimated to be faster than packing the right
    one.
    """
    lanes = target.lanes(c.accumulate)
    if lanes == 1 or target.size or c.right.constant or len(c.inner) != 1 or c.columns.right == 1:
        return False
    (summed,) = c.inner
    if summed.left != 1 or summed.right != 1 or summed.usual < 2 * lanes:
        return False
    more = size_hint(c.row_count) * (summed.usual / (8 * lanes) + FOLD)
    return more < summed.usual * TURN or c.columns.extent == 1


@cache
def choose(target: Target, dtype: DType, rows: int, columns: int) -> tuple[TileSplit, TileSplit]:
    """Rows and columns of a tile: each pair has an accumulator."""
    best: tuple[float, TileSplit, TileSplit] | None = None
    for tall in range(1, min(8, rows) + 1):
        for wide in range(1, min(8, columns) + 1):
            if tall * wide + tall + wide > target.vector_registers:
                break
            down, across = even_split(rows, tall), even_split(columns, wide)
            step = register_tile.cycles(down.step, across.step, target.hardware)
            total = down.count * across.count * step
            if best is None or total < best[0] * 0.995:
                best = total, down, across
    assert best is not None
    return best[1], best[2]


def chosen(c: Contraction, swap: bool, target: Target) -> InnerProductSchedule:
    """The schedule of a contraction for which this pays."""
    down, across = choose(target, c.accumulate, max(1, c.rows[1].usual), max(1, c.columns.usual))
    lanes = target.lanes(c.accumulate)
    unroll = 2 if c.inner[0].usual >= 4 * lanes else 1
    turns = volume(tuple(_loops(c, down.step, across.step)))
    threads = shared(c, size_hint(turns), target)
    return InnerProductSchedule(swap, lanes, down.step, across.step, unroll, threads)


def check(
    schedule: InnerProductSchedule, c: Contraction, view: OperandView, target: Target
) -> None:
    """Raises Misfit for a schedule that a contraction cannot have."""
    if view.folded is not None or len(c.inner) != 1:
        raise Misfit(("template",), "the right operand is computed, or summed along several axes")
    if c.inner[0].left != 1 or c.inner[0].right != 1:
        raise Misfit(("template",), "the operands are not contiguous along the sum")
    most = target.lanes(c.accumulate)
    if schedule.lanes < 2 or schedule.lanes & (schedule.lanes - 1) or schedule.lanes > most:
        raise Misfit(("lanes",), f"it must be a power of two from 2 to {most} on this target")
    used = schedule.rows * schedule.columns + schedule.rows + schedule.columns
    if used > target.vector_registers and (schedule.rows, schedule.columns) != (1, 1):
        raise Misfit(("rows",), f"{used} registers of {target.vector_registers} are taken")
    if schedule.unroll > UNROLLED:
        raise Misfit(("unroll",), f"it must be at most {UNROLLED}")
    check_threads(schedule.threads, 1)


def _loops(c: Contraction, rows: int, columns: int) -> list[Dim]:
    """The extents of the loops around tiles."""
    tiles = split_of(c.rows[1].extent, rows).count, split_of(c.columns.extent, columns).count
    return [*(a.extent for a in c.outer), c.rows[0].extent, *tiles]


def swaps(c: Contraction, view: OperandView) -> bool:
    """Whether a product with one column is faster as one with one row."""
    return (
        c.columns.extent == 1
        and c.row_count == c.rows[1].extent != 1
        and view.folded is None
        and len(c.inner) == 1
    )
