"""Splits extents into tiles, static and dynamic ones; and the register tile of a micro-kernel."""

from __future__ import annotations

from dataclasses import dataclass

from xlac.codegen.schedules.schedule import Part, Positive
from xlac.ir.dims import Dim, Sym, ceil_div, size_hint


@dataclass(frozen=True, slots=True)
class TileSplit:
    """A static extent split into `full` tiles of `step` and a last one of `rest` elements (0:
    none).
    """

    extent: int
    step: int

    @property
    def full(self) -> int:
        """The number of full tiles."""
        return self.extent // self.step

    @property
    def rest(self) -> int:
        """The size of the last tile if it is partial, else 0."""
        return self.extent % self.step

    @property
    def count(self) -> int:
        """The number of tiles."""
        return self.full + bool(self.rest)


@dataclass(frozen=True, slots=True)
class OpenTileSplit:
    """A dynamic extent split into `full` tiles of `step`, and a remainder of smaller tiles."""

    extent: Sym
    step: int

    @property
    def full(self) -> Dim:
        """The number of full tiles."""
        return self.extent // self.step

    @property
    def count(self) -> Dim:
        """The number of tiles, with the remainder counted as one."""
        return ceil_div(self.extent, self.step)

    @property
    def smaller(self) -> tuple[int, ...]:
        """Tile sizes for the remainder, descending to 1: the likely remainder first, then powers of
        two.
        """
        sizes = {size_hint(self.extent) % self.step} | {
            self.step >> k for k in range(1, self.step.bit_length())
        }
        return tuple(sorted((size for size in sizes if size), reverse=True))


def split_of(extent: Dim, step: int) -> TileSplit | OpenTileSplit:
    """An extent split into tiles of `step`; static or dynamic."""
    return OpenTileSplit(extent, step) if isinstance(extent, Sym) else TileSplit(extent, step)


def even_split(extent: int, most: int) -> TileSplit:
    """An extent split into the fewest tiles of at most `most`, of sizes as equal as possible."""
    count = -(-extent // most)
    return TileSplit(extent, -(-extent // count))


@dataclass(frozen=True, slots=True)
class RegisterTile(Part):
    """`rows` along each of the two row axes, by `vectors` of `lanes` columns."""

    rows: tuple[Positive, Positive]
    vectors: Positive
    lanes: Positive

    @property
    def width(self) -> int:
        """The number of columns of a panel."""
        return self.vectors * self.lanes


def unroll(extent: int, wanted: int) -> int:
    """The unroll factor of a summed loop, near `wanted`: the whole extent if it is short, else a
    divisor if one is near.
    """
    if wanted == 1:
        return 1
    if extent <= 4:
        return max(1, extent)
    for steps in (wanted, wanted + 1, wanted + 2, 2, 3):
        if extent % steps == 0:
            return steps
    return wanted


FEW_PRODUCTS = 16  # of a tile: with more products per step, the loop overhead is hidden
