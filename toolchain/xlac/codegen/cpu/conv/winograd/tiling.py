"""How a convolution of 3 by 3 taps is cut into tiles of results that share their products: see
`winograd.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlac.codegen.core.contraction.packing import panel_count
from xlac.codegen.core.contraction.partial_tiles import PRODUCTS
from xlac.codegen.core.contraction.tiling import RegisterTile, TileSplit, even_split, split_of
from xlac.codegen.cpu.conv.winograd import toom_cook
from xlac.codegen.cpu.gemm import register_tile
from xlac.codegen.cpu.gemm.cache_blocking import Cut
from xlac.codegen.cpu.gemm.prefetch import LINE
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

# bytes: a block and its weights lie on the stack, and take three quarters of this at most
STACK = 2 << 20
PIECES = 8  # pieces a thread
# tiles of a piece, where threads have one without cutting them smaller: each brings all weights to
# points
LEAST = 48


@dataclass(frozen=True, slots=True)
class Tiling:
    """A convolution as tiles of `results` by `results` pixels; where it is `guarded`, some are
    summed directly.
    """

    results: int
    batch: int
    x: tuple[int, int]  # height and width
    low: tuple[int, int]  # padding above and to the left
    pixels: tuple[int, int]  # of the result
    channels: int
    columns: int
    guarded: bool

    @property
    def points(self) -> int:
        """Pairs of points: products for each tile and each pair of channels."""
        return self.seen**2

    @property
    def seen(self) -> int:
        """Pixels along an axis that a tile sees."""
        return self.results + toom_cook.TAPS - 1

    @property
    def shared(self) -> range:
        """Of those, the ones that every result of the tile sees."""
        return range(self.results - 1, toom_cook.TAPS)

    @property
    def grid(self) -> tuple[int, int]:
        """Tiles down and across."""
        return -(-self.pixels[0] // self.results), -(-self.pixels[1] // self.results)

    @property
    def tiles(self) -> int:
        """Tiles of the whole batch."""
        return self.batch * self.grid[0] * self.grid[1]

    @property
    def whole(self) -> bool:
        """Whether no tile goes beyond the result."""
        return not any(n % self.results for n in self.pixels)


def plane(size: int) -> int:
    """Elements between those at one pair of points and at the next, where there are so many: a line
    more, so that what belongs together, at all pairs, is not in one set of the first cache."""
    return size + LINE // DType.F32.nbytes


def tile_of(t: Tiling, target: Target) -> RegisterTile:
    """The block of products that stays in registers. A chunk's weights at one pair of points are
    few enough for the first cache.
    """
    return register_tile.choose(target, DType.F32, (1, t.tiles), t.columns)


def cut(t: Tiling, target: Target) -> Cut:
    """Blocks of tiles whose products at all points stay in half the second cache, and pieces for
    every thread; the weights of so many channels at a time, at all points, stay in a quarter."""
    tile = tile_of(t, target)
    split, panels = split_of(t.tiles, tile.rows[1]), panel_count(t.columns, tile)
    assert isinstance(split, TileSplit) and isinstance(panels, int)
    room, width = min(target.l2_bytes, STACK) // 4, t.points * tile.width * DType.F32.nbytes
    block = max(1, 2 * room // (width * split.step))
    if target.threads > 1:
        least = min(split.count * panels // target.threads, -(-LEAST // split.step))
        block = min(block, max(1, least, split.count * panels // (PIECES * target.threads)))
    block = min(block, split.count)
    most = max(1, min(room // width, PRODUCTS))
    chunk = next(
        n for n in range(t.channels, 0, -1) if t.channels % n == 0 and (n == 1 or n <= most)
    )
    return Cut((split_of(1, 1), split), panels, 1, even_split(split.count, block).step, chunk=chunk)
