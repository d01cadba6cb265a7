"""Decides which tiles of a Winograd convolution are as accurate as the direct sum.

A Winograd result is a sum over all pixels of its tile, in which the pixels outside its window
cancel except for rounding errors. For C channels, with T the largest magnitude of the tile's pixels
and W the sum of the magnitudes of a filter's weights, its error is at most 16 (C + 12) T W 2^-24:
transformed pixels are at most 4 T, magnitudes of transformed weights times those of the output
transform add up to 4 W, and each term is rounded C times while channels are added and 12 times in
transforms. The direct sum's error is at most 9 C M W 2^-24, M being the largest magnitude in the
window. So a tile is computed directly unless T

* is at most SPREAD times the largest of the pixels that all its windows share, a lower bound of M;
* and is at most a limit, computed from the weights, below which nothing can overflow. The limit is
  NEVER if a weight is not finite, or if transformed weights might not be.

Both comparisons fail for a NaN and for an infinite pixel. Magnitudes are compared as integers: the
bits of floats have the same order, with infinity above all numbers and NaN above infinity. The
limit of weights that are known at compile time is a constant; that of others is computed panel by
panel, when they are transformed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from xlac.codegen.core.contraction.contraction import OperandSource
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.lowered_group import PackedConstant, Scratch
from xlac.codegen.core.operands import OperandView
from xlac.codegen.cpu.conv.winograd import toom_cook
from xlac.codegen.cpu.conv.winograd.tiling import Tiling
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Const, Expr, Var
from xlac_sdk.kernel_ir.primitives import Primitive

SPREAD = 8.0
"""The largest allowed ratio of a tile's maximum to that of its shared pixels: costs three bits of
the error bound.
"""

GROWTH = 64
"""An upper bound of every intermediate value, relative to the largest pixel times the sum of a
filter's magnitudes.

The input transform adds four pixels (F(2x2)), a transformed weight is at most its filter's sum, and
the output transform adds nine products: 36.
"""

MAGNITUDE = 0x7FFFFFFF  # mask of an f32's bits without the sign


NEVER = -1.0  # a limit that every tile exceeds


@dataclass(frozen=True, slots=True)
class Guard:
    """The maximum of each tile, and the limit from the weights."""

    most: Scratch  # the largest magnitude of a tile; infinite if the tile must be summed directly
    terms: int
    # the largest pixel for which nothing overflows; None until run time
    limit: PackedConstant | None

    @staticmethod
    def of(t: Tiling, kernel: OperandView) -> Guard:
        """A guard for these weights."""
        terms = GROWTH * toom_cook.TAPS**2 * t.channels
        source = OperandSource(kernel.value, DType.F32)
        limit = _limit(terms, kernel) if source.constant else None
        return Guard(Scratch(DType.F32, t.tiles, "most"), terms, limit)

    def store(self, elements: Elements, tile: Expr, extremes: Extremes) -> None:
        """Stores the maximum of a tile whose pixels were all noted, or infinity if its pixels
        differ too much.
        """
        builder = elements.builder
        most, near = extremes.maxima()
        bound = build.apply(Primitive.MUL, near, Const(SPREAD, DType.F32))
        alike = build.apply(Primitive.LE, most, bound)
        kept = build.select(alike, most, Const(np.inf, DType.F32))
        builder.store(elements.parameter(self.most, Access.WRITE), tile, kept)

    def computed_limit(self, builder: Builder, largest: Var) -> Expr:
        """The limit, given the largest magnitude of the weights as integers in the lanes of
        `largest`.
        """
        bits = build.fold(Primitive.MAX, largest)
        most = builder.let("most", build.apply(Primitive.BITCAST, bits, dtype=DType.F32))
        highest = Const(float(np.finfo(np.float32).max), DType.F32)
        product = build.apply(Primitive.MUL, most, Const(float(self.terms), DType.F32))
        limit = builder.let("limit", build.apply(Primitive.DIV, highest, product))
        able = build.apply(Primitive.LE, Const(1.0, DType.F32), limit)
        least = build.apply(Primitive.MIN, limit, highest)
        return builder.let("limit", build.select(able, least, Const(NEVER, DType.F32)))

    def known(self, elements: Elements) -> Expr | None:
        """The limit of weights that are known at compile time, else None."""
        if self.limit is None:
            return None
        return elements.builder.let(
            "limit", build.load(elements.parameter(self.limit, Access.READ), 0)
        )

    def plainly(self, elements: Elements, tile: Expr, limit: Expr) -> Expr:
        """Whether a tile may be computed by Winograd."""
        most = build.load(elements.parameter(self.most, Access.READ), tile)
        return elements.builder.let("plain", build.apply(Primitive.LE, most, limit))


def _limit(terms: int, kernel: OperandView) -> PackedConstant:
    assert isinstance(kernel.value, Node)

    def limit(array: Array, *others: Array) -> Array:
        weights = kernel.elements(array, *others)
        # NaN if a weight is NaN
        most = np.maximum(weights.max(), -weights.min()).astype(np.float64)
        with np.errstate(divide="ignore"):
            largest = np.minimum(
                np.finfo(np.float32).max / (terms * most), np.finfo(np.float32).max
            )
        return np.asarray([largest if np.isfinite(most) and largest >= 1 else NEVER], np.float32)

    key = f"limit at points of {terms} {kernel.key}"
    return PackedConstant(DType.F32, 1, (kernel.value, *kernel.others), limit, key)


def noted(builder: Builder, largest: Var, value: Expr, lanes: int) -> None:
    """Includes the magnitudes of a vector of f32 in a maximum."""
    bits = build.apply(Primitive.BITCAST, value, dtype=DType.I32)
    size = build.apply(Primitive.AND, bits, Const(MAGNITUDE, DType.I32, lanes))
    builder.assign(largest, build.apply(Primitive.MAX, largest, size))


class Extremes:
    """The largest magnitude of a tile's pixels, and of those that all its windows share, for each
    lane of a vector of channels.
    """

    def __init__(self, builder: Builder, t: Tiling, lanes: int) -> None:
        self.builder, self.t, self.lanes = builder, t, lanes
        self._rim, self._core = (
            builder.variable(name, Const(0, DType.I32, lanes)) for name in ("rim", "core")
        )

    def note(self, pixels: Mapping[tuple[int, int], Expr]) -> None:
        """Includes a vector of channels of every pixel, by row and column."""
        for (i, j), value in pixels.items():
            most = self._core if i in self.t.shared and j in self.t.shared else self._rim
            noted(self.builder, most, value, self.lanes)

    def maxima(self) -> tuple[Expr, Expr]:
        """Both maxima as f32: of all pixels, and of the shared ones."""
        most = build.apply(Primitive.MAX, self._rim, self._core)
        return self._float(most), self._float(self._core)

    def _float(self, bits: Expr) -> Expr:
        return self.builder.let(
            "x", build.apply(Primitive.BITCAST, build.fold(Primitive.MAX, bits), dtype=DType.F32)
        )
