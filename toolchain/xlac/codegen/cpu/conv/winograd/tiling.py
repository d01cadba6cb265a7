"""The tiles of a Winograd convolution: see `winograd.py`."""

from __future__ import annotations

from dataclasses import dataclass

from xlac.codegen.cpu.conv.winograd import toom_cook
from xlac_sdk.dtypes import DType

PAD = 64  # bytes between planes, a cache line of most processors


@dataclass(frozen=True, slots=True)
class Tiling:
    """A convolution in tiles of `results` by `results` pixels; if it is `guarded`, some tiles are
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
        """Winograd points: products for each tile and each pair of channels."""
        return self.seen**2

    @property
    def seen(self) -> int:
        """Pixels of an input tile along an axis."""
        return self.results + toom_cook.TAPS - 1

    @property
    def shared(self) -> range:
        """Of those, the ones that the windows of all results share."""
        return range(self.results - 1, toom_cook.TAPS)

    @property
    def grid(self) -> tuple[int, int]:
        """The number of tiles down and across."""
        return -(-self.pixels[0] // self.results), -(-self.pixels[1] // self.results)

    @property
    def tiles(self) -> int:
        """The number of tiles of the whole batch."""
        return self.batch * self.grid[0] * self.grid[1]

    @property
    def whole(self) -> bool:
        """Whether no tile extends beyond the result."""
        return not any(n % self.results for n in self.pixels)


def plane(size: int) -> int:
    """The stride between consecutive points for planes of `size` elements: one cache line more than
    the plane, so that elements of all points do not map to the same set of the first-level cache.
    """
    return size + PAD // DType.F32.nbytes
