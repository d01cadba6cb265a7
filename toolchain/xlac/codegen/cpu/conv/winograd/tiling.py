"""The tiles of a Winograd convolution: see `winograd.py` and `weight_gradient.py`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.cpu.conv.winograd import toom_cook
from xlac_sdk.dtypes import DType

PAD = 64  # bytes between planes, a cache line of most processors
CHANNELS = 3  # the axis of a result's channels, its last
SIDE = 2  # pixels of a tile of cotangents along an axis


@dataclass(frozen=True, slots=True)
class TiledMap:
    """A map in tiles of `seen` by `seen` pixels that begin `step` pixels apart, the first one `low`
    pixels before the map. Transformed, it is for each Winograd point: blocks of `block` channels,
    tiles, channels of the block. It may be that of a part of the batch, from the image `first`.
    """

    batch: int
    size: tuple[int, int]  # height and width
    low: tuple[int, int]
    grid: tuple[int, int]  # the number of tiles down and across
    step: int
    seen: int
    channels: int
    block: int
    first: int = 0

    @property
    def tiles(self) -> int:
        """The number of tiles of the whole batch."""
        return self.batch * self.grid[0] * self.grid[1]

    @property
    def loops(self) -> list[Run]:
        """The loops over blocks of channels and all tiles."""
        extents = (self.channels // self.block, self.batch, *self.grid)
        return [Run(size, (axis,)) for axis, size in enumerate(extents)]

    @property
    def point_size(self) -> int:
        """The elements of the map at one point."""
        return self.tiles * self.channels


@dataclass(frozen=True, slots=True)
class Tiling:
    """A convolution in tiles of `results` by `results` pixels; if it is `guarded`, some tiles are
    summed directly. It may be that of a part of the batch, from the image `first`.
    """

    results: int
    batch: int
    x: tuple[int, int]  # height and width
    low: tuple[int, int]  # padding above and to the left
    pixels: tuple[int, int]  # of the result
    channels: int
    columns: int
    guarded: bool
    first: int = 0

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
        return grid(self.pixels, self.results)

    @property
    def tiles(self) -> int:
        """The number of tiles of the whole batch."""
        return self.batch * self.grid[0] * self.grid[1]

    @property
    def input(self) -> TiledMap:
        """The tiles of the input."""
        kept = (self.grid, self.results, self.seen, self.channels, self.channels, self.first)
        return TiledMap(self.batch, self.x, self.low, *kept)

    @property
    def transformed(self) -> int:
        """Elements of all tiles at their points."""
        return self.points * plane(self.tiles * self.channels)

    def parts(self, nbytes: int) -> list[Tiling]:
        """Tilings of equal parts of the batch, whose tiles take at most `nbytes` at their points if
        those of one image do; the whole where `nbytes` is 0.
        """
        sizes = [n for n in range(self.batch, 0, -1) if self.batch % n == 0]
        some = [replace(self, batch=n) for n in (sizes if nbytes else sizes[:1])]
        room = nbytes // DType.F32.nbytes
        fit = next((t for t in some if t.transformed <= room), some[-1])
        return [replace(fit, first=at) for at in range(0, self.batch, fit.batch)]

    @property
    def whole(self) -> bool:
        """Whether no tile extends beyond the result."""
        return not any(n % self.results for n in self.pixels)


@dataclass(frozen=True, slots=True)
class WeightTiling:
    """The gradient for the weights of a 3x3 convolution, its map `pixels` of cotangents in tiles of
    2 by 2. If it is `guarded`, sums that are not finite are computed directly. It may be that of
    some of the channels of the input and of the cotangents, from the channels `first`.
    """

    batch: int
    x: tuple[int, int]  # height and width
    low: tuple[int, int]  # padding above and to the left
    pixels: tuple[int, int]
    channels: int
    columns: int
    guarded: bool
    first: tuple[int, int] = (0, 0)

    @property
    def points(self) -> int:
        """Winograd points: products for each tile and each pair of channels."""
        return (SIDE + toom_cook.TAPS - 1) ** 2

    @property
    def grid(self) -> tuple[int, int]:
        """The number of tiles down and across."""
        return grid(self.pixels, SIDE)

    @property
    def tiles(self) -> int:
        """The number of tiles of the whole batch."""
        return self.batch * self.grid[0] * self.grid[1]

    def parts(self, block: int, nbytes: int) -> list[list[WeightTiling]]:
        """Tilings of equal parts of the channels of the cotangents, each a list of those of equal
        parts of the input's: in whole blocks, each of which takes at most `nbytes` at its points if
        a block does. The whole where `nbytes` is 0.
        """
        room = nbytes // DType.F32.nbytes // self.points if nbytes else None
        wide, deep = (self._most(n, block, room) for n in (self.columns, self.channels))
        return [
            [
                replace(self, columns=wide, channels=deep, first=(channel, column))
                for channel in range(0, self.channels, deep)
            ]
            for column in range(0, self.columns, wide)
        ]

    def _most(self, channels: int, block: int, room: int | None) -> int:
        """The most channels, in whole blocks, that divide all and whose tiles fit `room` elements
        at a point; else the fewest.
        """
        sizes = [n for n in range(channels, 0, -block) if channels % n == 0]
        fits = (n for n in sizes if room is None or plane(self.tiles * n) <= room)
        return next(fits, sizes[-1])

    def input(self, block: int) -> TiledMap:
        """The tiles of the input, in blocks of channels."""
        kept = (self.grid, SIDE, SIDE + toom_cook.TAPS - 1, self.channels, block)
        return TiledMap(self.batch, self.x, self.low, *kept)

    def cotangents(self, block: int) -> TiledMap:
        """The tiles of the cotangents, in blocks of channels."""
        kept = (self.grid, SIDE, SIDE, self.columns, block)
        return TiledMap(self.batch, self.pixels, (0, 0), *kept)


def grid(pixels: tuple[int, int], side: int) -> tuple[int, int]:
    """The number of tiles of `side` by `side` pixels down and across a map."""
    return -(-pixels[0] // side), -(-pixels[1] // side)


def plane(size: int) -> int:
    """The stride between consecutive points for planes of `size` elements: one cache line more than
    the plane, so that elements of all points do not map to the same set of the first-level cache.
    """
    return size + PAD // DType.F32.nbytes
