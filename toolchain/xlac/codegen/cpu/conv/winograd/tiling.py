"""How a convolution of 3 by 3 taps is cut into tiles of results that share their products: see
`winograd.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlac.codegen.cpu.conv.winograd import toom_cook
from xlac.codegen.cpu.gemm.prefetch import LINE
from xlac_sdk.dtypes import DType


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
