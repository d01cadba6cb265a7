"""Divides a contraction's result into tiles, cache blocks, and pieces for threads."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from math import prod
from typing import Literal

from xlac.codegen.core import summation
from xlac.codegen.core.contraction.contraction import Contraction
from xlac.codegen.core.contraction.packing import panel_count
from xlac.codegen.core.contraction.partial_tiles import PRODUCTS, WHOLE
from xlac.codegen.core.contraction.tiling import (
    OpenTileSplit,
    RegisterTile,
    TileSplit,
    even_split,
    split_of,
)
from xlac.codegen.core.loop_nest import CHUNKS
from xlac.codegen.core.summation import Blocks
from xlac.codegen.cpu import threads_pay
from xlac.codegen.schedules.gemm import CacheBlocking
from xlac.codegen.schedules.schedule import Misfit, Threads
from xlac.ir.dims import Dim, ceil_div, size_hint, upper_bound, volume
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

# pieces per thread of a parallel contraction: more balance the load, but each piece reads its panel
# again
PIECES = 16
AXES: tuple[Literal["first", "second"], ...] = ("first", "second")  # of row tiles
PIECE_FLOPS = 1 << 18  # the fewest operations of a piece of a block


@dataclass(frozen=True, slots=True)
class Cut:
    """How the result is divided: row tiles on both row axes, panels of columns, and blocks of row
    tiles on `axis`.

    A block's rows of the left operand stay in the second-level cache while all panels are
    multiplied. The product of a block and a panel is divided further, into `parts` pieces of
    `piece` row tiles, which threads share.
    """

    rows: tuple[TileSplit | OpenTileSplit, TileSplit | OpenTileSplit]
    panels: Dim
    axis: int  # the row axis that is divided into blocks
    piece: int  # row tiles of a piece
    parts: int = 1  # pieces of a block
    # the blocks of a compensated long sum, which depend on sizes alone
    blocks_of_sum: Blocks | None = None
    block_count: int = 1  # the number of these blocks
    # steps of a long sum, in whole blocks, that all tiles of a piece take before the next chunk; 0:
    # each tile takes all steps at once
    chunk: int = 0

    @property
    def block(self) -> int:
        """The row tiles of a block."""
        return self.piece * self.parts

    @property
    def blocks(self) -> Dim:
        """The number of blocks of row tiles."""
        return ceil_div(self.rows[self.axis].count, self.block)

    @property
    def pieces(self) -> Dim:
        """The number of pieces in all blocks; the last block may have fewer."""
        return ceil_div(self.rows[self.axis].count, self.piece)


def choose(c: Contraction, tile: RegisterTile, target: Target) -> CacheBlocking:
    """The largest blocks of rows that stay in half the second-level cache, and enough pieces for
    every thread.
    """
    rows = _rows(c, tile)
    panels = panel_count(c.columns.extent, tile)
    axis = 0 if c.rows[0].extent != 1 else 1
    count = max(1, size_hint(rows[axis].count))
    blocks = _blocks(c)
    chunk = (
        _chunk(c, tile, target.shipped, max(1, size_hint(rows[1].count)), blocks)
        if blocks and c.rows[0].extent == 1
        else 0
    )
    near = _near(c, axis, tile.rows[axis], count, target.hardware.l2_room // 2)
    if chunk:  # the sums of a block are kept in memory
        near = target.hardware.l2_room // 16 // (tile.rows[1] * tile.width * c.accumulate.nbytes)
    block = even_split(count, max(1, min(near, count))).step
    parts = 1
    if target.threads > 1 and pays_threads(c, target):
        pieces = max(CHUNKS * target.threads, min(PIECES * target.threads, c.flops // PIECE_FLOPS))
        others = size_hint(volume(tuple(a.extent for a in c.outer)) * panels) * -(-count // block)
        parts = min(block, -(-pieces // max(1, others)))
    piece = -(-block // parts)
    return CacheBlocking(AXES[axis], piece, -(-block // piece) if not chunk else 1, chunk)


def row_tiles(c: Contraction, tile: RegisterTile, blocking: CacheBlocking) -> int:
    """How many row tiles a blocking divides."""
    return max(1, size_hint(_rows(c, tile)[AXES.index(blocking.axis)].count))


def check(blocking: CacheBlocking, c: Contraction, tile: RegisterTile, target: Target) -> None:
    """Raises Misfit for a blocking that a contraction cannot have."""
    count = row_tiles(c, tile, blocking)
    if (blocking.parts - 1) * blocking.piece >= count:
        raise Misfit(("blocking", "parts"), f"there are {count} row tiles for all pieces together")
    if not blocking.chunk:
        return
    blocks = _blocks(c)
    if not isinstance(c.depth, int) or len(c.inner) != 1 or c.rows[0].extent != 1 or not blocks:
        raise Misfit(("blocking", "chunk"), "only a long sum along one axis is cut into chunks")
    if blocking.chunk % blocks.turns:
        raise Misfit(("blocking", "chunk"), f"it must be a multiple of {blocks.turns} steps")
    if blocking.axis != "second" or blocking.parts != 1:
        raise Misfit(("blocking", "parts"), "chunks take pieces of the second axis, one a block")
    waiting = blocking.piece * tile.rows[1] * tile.width * c.accumulate.nbytes
    if waiting > target.hardware.l2_room // 2:
        raise Misfit(("blocking", "piece"), f"{waiting:,} bytes of sums would wait in memory")


def cut(c: Contraction, tile: RegisterTile, blocking: CacheBlocking) -> Cut:
    """The division of a contraction's axes by a blocking."""
    blocks = _blocks(c) if blocking.chunk or c.accumulate.is_float else None
    return Cut(
        _rows(c, tile),
        panel_count(c.columns.extent, tile),
        AXES.index(blocking.axis),
        blocking.piece,
        blocking.parts,
        blocks,
        _count(c, blocks),
        blocking.chunk,
    )


def pays_panel(c: Contraction, tile: RegisterTile, target: Target) -> bool:
    """Whether a panel is packed right before all row tiles read it from the second-level cache.

    The left operand passes through that cache meanwhile, once for every panel, from where it fits,
    which takes no more than half of that rate; and threads get equal shares of the panels.
    """
    extents = (c.row_count, c.columns.extent, *(axis.extent for axis in c.outer))
    if not all(isinstance(n, int) for n in extents) or len(c.inner) != 1:
        return False
    if any(axis.right == 0 for axis in c.outer):  # each would pack the panels again
        return False
    threads, facts = target.threads, target.hardware
    if size_hint(c.depth) * tile.width * c.accumulate.nbytes > facts.l2_room // 4:
        return False
    nbytes = size_hint(c.row_count * c.depth) * c.left.dtype.nbytes
    level = "l3" if nbytes * threads <= facts.l3_bytes // 2 else "memory"
    read = c.left.dtype.nbytes * facts.fmas / tile.vectors  # bytes per cycle
    panels = size_hint(panel_count(c.columns.extent, tile)) * prod(a.usual for a in c.outer)
    rest = size_hint(c.columns.extent) % tile.width != 0 or panels % threads != 0
    least = CHUNKS * threads if rest and threads > 1 else 2 * threads
    return panels >= least and 2 * read <= facts.rates(level, threads)[0]


def fits_panel(
    c: Contraction, tile: RegisterTile, dtype: DType, chunk: int, target: Target
) -> bool:
    """Whether a packed panel, or its part for a chunk of the sum, is small enough to be a local
    array.
    """
    if not isinstance(c.depth, int) or not c.depth or c.word or (chunk and len(c.inner) > 1):
        return False
    return (chunk or c.depth) * tile.width * dtype.nbytes <= target.hardware.l2_room // 2


def loops(c: Contraction, cut: Cut) -> list[Dim]:
    """The extents of the loops around tiles: outer axes, blocks, panels, pieces of a block."""
    return [*(a.extent for a in c.outer), cut.blocks, cut.panels, cut.parts]


def threads(c: Contraction, cut: Cut, target: Target) -> Threads:
    """How threads share the loops around tiles, fused into one."""
    return shared(c, size_hint(volume(tuple(loops(c, cut)))), target)


def shared(c: Contraction, items: int, target: Target) -> Threads:
    """How threads share a loop of `items` iterations, which has all of a contraction."""
    flops, nbytes = _work(c)
    return threads_pay.shared(items, flops, c.accumulate, target, nbytes)


def pays_threads(c: Contraction, target: Target) -> bool:
    """Whether a contraction takes long enough for threads to share it."""
    flops, nbytes = _work(c)
    return threads_pay.pays(flops, c.accumulate, target, nbytes)


def _work(c: Contraction) -> tuple[int, int]:
    """The operations, of which one instruction does those of a whole word, and the bytes of the
    right operand.
    """
    axes = (*c.outer, c.columns, *c.inner)
    right = prod(axis.usual for axis in axes if axis.right != 0) * c.right.dtype.nbytes
    return c.flops * c.words // c.products, right * c.products


def _rows(
    c: Contraction, tile: RegisterTile
) -> tuple[TileSplit | OpenTileSplit, TileSplit | OpenTileSplit]:
    return split_of(c.rows[0].extent, tile.rows[0]), split_of(c.rows[1].extent, tile.rows[1])


def _blocks(c: Contraction) -> Blocks | None:
    """The blocks of a long sum, for compensation."""
    return summation.blocks([a.extent for a in c.inner], PRODUCTS, WHOLE)


def _near(c: Contraction, axis: int, step: int, count: int, room: int) -> int:
    """How many of `count` tiles of `step` rows along an axis use at most `room` bytes of the left
    operand.
    """
    others = [(a.usual, a.left) for a in (c.rows[1 - axis], *c.inner)]
    others += [(c.products, 1)] if c.word else []

    def nbytes(many: int) -> int:
        return _distinct([(many * step, c.rows[axis].left), *others]) * c.left.dtype.nbytes

    return bisect_right(range(1, count + 1), room, key=nbytes)


def _distinct(loops: list[tuple[int, Dim]]) -> int:
    """The number of distinct elements that nested loops of (extent, stride) read: overlapping
    windows share elements.
    """
    reaches = [(1, 1)]  # (stride, extent) of loops after merging those that overlap
    for stride, extent in sorted((abs(size_hint(stride)), extent) for extent, stride in loops):
        base, reach = reaches[-1]
        if stride == 0 or extent <= 1:
            continue
        if stride % base == 0 and stride // base <= reach:
            reaches[-1] = base, reach + (extent - 1) * (stride // base)
        else:
            reaches.append((stride, extent))
    return prod(reach for _, reach in reaches)


def _count(c: Contraction, blocks: Blocks | None) -> int:
    """The number of blocks of a sum, at most."""
    if blocks is None:
        return 1
    return -(-upper_bound(c.inner[blocks.loop].extent) // blocks.turns) * upper_bound(
        volume(tuple(a.extent for a in c.inner[: blocks.loop]))
    )


def _chunk(
    c: Contraction, tile: RegisterTile, target: Target, row_tiles: int, blocks: Blocks
) -> int:
    """The steps of a chunk of a long sum, so that a panel's part stays in the second-level cache
    while every row tile uses it. The sum is split there, so only shipped facts are read.
    """
    if not isinstance(c.depth, int):
        return 0
    bytes_of_panel = c.depth * tile.width * c.accumulate.nbytes
    if (
        len(c.inner) != 1
        or row_tiles < 4
        or bytes_of_panel <= target.hardware.l2_room * 2 // 5
        or target.size
    ):
        return 0
    parts = -(-bytes_of_panel * 8 // target.hardware.l2_room)
    return max(1, c.depth // parts // blocks.turns) * blocks.turns
