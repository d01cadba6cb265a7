"""Extents cut into tiles, known ones and those that the call decides; and the tile of results that a
micro-kernel keeps in registers.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlac.codegen.schedules.schedule import Part, Positive
from xlac.ir.dims import Dim, Sym, ceil_div, size_hint


@dataclass(frozen=True, slots=True)
class TileSplit:
    """A known extent cut into `full` tiles of `step` and a last one of `rest` elements (0:
    none).
    """

    extent: int
    step: int

    @property
    def full(self) -> int:
        """Whole tiles."""
        return self.extent // self.step

    @property
    def rest(self) -> int:
        """Elements of the last tile, where it is not whole."""
        return self.extent % self.step

    @property
    def count(self) -> int:
        """Tiles in all."""
        return self.full + bool(self.rest)


@dataclass(frozen=True, slots=True)
class OpenTileSplit:
    """An extent that the call decides, cut into `full` tiles of `step`, and what is left into
    smaller ones.
    """

    extent: Sym
    step: int

    @property
    def full(self) -> Dim:
        """Whole tiles."""
        return self.extent // self.step

    @property
    def count(self) -> Dim:
        """Tiles, when all that is left counts as one."""
        return ceil_div(self.extent, self.step)

    @property
    def smaller(self) -> tuple[int, ...]:
        """Sizes of tiles for what is left, descending to 1: first the one that is usual, then
        halves.
        """
        sizes = {size_hint(self.extent) % self.step} | {
            self.step >> k for k in range(1, self.step.bit_length())
        }
        return tuple(sorted((size for size in sizes if size), reverse=True))


def split_of(extent: Dim, step: int) -> TileSplit | OpenTileSplit:
    """An extent cut into tiles of `step`, whether it is known or the call decides it."""
    return OpenTileSplit(extent, step) if isinstance(extent, Sym) else TileSplit(extent, step)


def even_split(extent: int, most: int) -> TileSplit:
    """An extent cut into as few tiles of at most `most` as there can be, as alike as they can
    be.
    """
    count = -(-extent // most)
    return TileSplit(extent, -(-extent // count))


@dataclass(frozen=True, slots=True)
class RegisterTile(Part):
    """`rows` along each of the two row axes, and `vectors` of `lanes` columns."""

    rows: tuple[Positive, Positive]
    vectors: Positive
    lanes: Positive

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes


def unroll(extent: int, wanted: int) -> int:
    """Steps of a sum written out, where about so many are `wanted`: all of a short one, else a
    divisor where one is near.
    """
    if wanted == 1:
        return 1
    if extent <= 4:
        return max(1, extent)
    for steps in (wanted, wanted + 1, wanted + 2, 2, 3):
        if extent % steps == 0:
            return steps
    return wanted


FEW_PRODUCTS = 16  # of a tile: with more, counting a loop's turns hides behind them sooner
