"""How a contraction's result is cut: into tiles, blocks of them that stay in a cache, and pieces for threads."""

from __future__ import annotations

from dataclasses import dataclass

from xlac.ir.dims import Dim, at_opt, ceil_div, volume
from xlac.schedule import tiles
from xlac.schedule.contraction import Contraction
from xlac.schedule.nest import CHUNKS
from xlac.schedule.packing import panel_count
from xlac.schedule.tiles import OpenSplit, Split, Tile, split_of
from xlac_sdk.target import Target

PARALLEL_FLOPS = 1 << 19  # operations of a kernel that repay waking another thread
PIECES = 32  # pieces a thread of a contraction that is split: the last one decides how long threads wait for one another
PIECE_FLOPS = 1 << 18  # operations of such a piece at least


@dataclass(frozen=True, slots=True)
class Cut:
    """How the result is cut: row tiles on both row axes, panels of columns, and blocks of row tiles on `axis`."""

    rows: tuple[Split | OpenSplit, Split | OpenSplit]
    panels: Dim
    axis: int  # the row axis that blocks divide
    block: int  # tiles of that axis in a block
    chunks: int = 1  # parts of the sum that are added apart

    @property
    def blocks(self) -> Dim:
        return ceil_div(self.rows[self.axis].count, self.block)


def cut(c: Contraction, tile: Tile, target: Target) -> Cut:
    """Blocks of rows as large as stay in half the second cache, and enough pieces for every thread."""
    rows = (split_of(c.rows[0].extent, tile.rows[0]), split_of(c.rows[1].extent, tile.rows[1]))
    tiles_of = tuple(max(1, at_opt(split.count)) for split in rows)
    panels = panel_count(c.columns.extent, tile)
    axis = 0 if c.rows[0].extent != 1 else 1
    other = max(1, c.rows[1 - axis].usual)
    per_tile = tile.rows[axis] * other * max(1, at_opt(c.depth)) * c.left.dtype.nbytes
    block = max(1, target.l2_bytes // 2 // per_tile)
    outer = at_opt(volume(tuple(a.extent for a in c.outer)))
    if target.threads > 1 and c.flops >= 2 * PARALLEL_FLOPS:
        pieces = max(CHUNKS * target.threads, min(PIECES * target.threads, c.flops // PIECE_FLOPS))
        wanted = -(-pieces // max(1, outer * at_opt(panels)))
        block = min(block, max(1, tiles_of[axis] // wanted))
    chunks = _chunks(c, tile, target, tiles_of[1]) if c.rows[0].extent == 1 else 1
    if chunks > 1:
        room = target.l2_bytes // 16 // (tile.rows[1] * tile.width * c.accumulate.nbytes)
        block = tiles_of[1] if target.threads == 1 else block
        block = max(1, min(block, room))
    return Cut(rows, panels, axis, tiles.even(tiles_of[axis], min(block, tiles_of[axis])).step, chunks)


def _chunks(c: Contraction, tile: Tile, target: Target, row_tiles: int) -> int:
    """Parts of a long sum, so that a panel's part stays in the second cache while every row tile passes it."""
    if not isinstance(c.depth, int):
        return 1
    bytes_of_panel = c.depth * tile.width * c.accumulate.nbytes
    if len(c.inner) != 1 or row_tiles < 4 or bytes_of_panel <= target.l2_bytes * 2 // 5 or target.size:
        return 1
    least = -(-bytes_of_panel * 8 // target.l2_bytes)
    depth = c.depth
    return next((n for n in range(least, 2 * least) if depth % (2 * n) == 0), 1)
