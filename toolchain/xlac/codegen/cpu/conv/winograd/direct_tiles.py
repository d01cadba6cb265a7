"""The direct sum of tiles that the accuracy guard refuses: see `accuracy_guard.py`. Compact code,
as it rarely runs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from xlac.codegen.core.contraction.contraction import multiply_add, zero
from xlac.codegen.core.contraction.packing import Panels
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.operands import OperandView
from xlac.codegen.cpu.conv.winograd import toom_cook
from xlac.codegen.cpu.conv.winograd.input_transform import line, met, pixel
from xlac.codegen.cpu.conv.winograd.tiling import Tiling
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Expr


class DirectSum:
    """The results of one tile for a panel of columns."""

    def __init__(
        self, elements: Elements, t: Tiling, x: OperandView, weights: Panels, lanes: int
    ) -> None:
        self.lanes = lanes
        self.elements, self.builder, self.t, self.x, self.weights, self.target = (
            elements,
            elements.builder,
            t,
            x,
            weights,
            elements.target,
        )

    def write(
        self,
        at: tuple[Expr, Expr, Expr],
        column: Expr,
        width: int,
        store: Callable[[list[list[Expr]], Expr], None],
    ) -> None:
        """Calls `store(results, column)` for each vector of the panel, with the results of the tile
        at (batch, row, column) by rows.
        """
        t, builder, lanes = self.t, self.builder, self.lanes
        pixels = self._pixels(at)
        source = self.elements.parameter(self.weights.source.value, Access.READ)
        first = builder.let("w", self.weights.base([], column, toom_cook.TAPS**2 * t.channels))
        steps = self.weights.strides(width)
        corners = list(product(range(t.results), repeat=2))
        with builder.loop("v", 0, width, lanes) as vector:
            sums = {corner: builder.variable("c", zero(DType.F32, lanes)) for corner in corners}
            with (
                builder.loop("k", 0, t.channels) as channel,
                builder.loop("i", 0, toom_cook.TAPS) as down,
                builder.loop("j", 0, toom_cook.TAPS) as across,
            ):
                where = build.add(first, vector)
                for counter, step in zip((channel, down, across), steps, strict=True):
                    where = build.add(where, build.mul(counter, step))
                weight = builder.let("w", build.load(source, where, lanes))
                for i, j in corners:
                    seen = build.add(build.mul(build.add(down, i), t.seen), build.add(across, j))
                    value = build.load(pixels, build.add(build.mul(seen, t.channels), channel))
                    total = sums[i, j]
                    builder.assign(
                        total, multiply_add(self.target, build.splat(value, lanes), weight, total)
                    )
            rows: list[list[Expr]] = [
                [sums[i, j] for j in range(t.results)] for i in range(t.results)
            ]
            store(rows, build.add(column, vector))

    def _pixels(self, at: tuple[Expr, Expr, Expr]) -> Buffer:
        """All pixels that the tile reads, row by row; 0 outside x."""
        t, builder, lanes = self.t, self.builder, self.lanes
        source = self.elements.parameter(self.x.value, Access.READ)
        kept = builder.local("x", DType.F32, t.points * t.channels)
        base = builder.let("a", build.add(build.mul(at[0], self.x.strides[0]), self.x.offset))
        with builder.loop("i", 0, t.seen) as i, builder.loop("j", 0, t.seen) as j:
            down, across = (
                line(builder, build.sub(build.add(corner, k), low), size)
                for corner, k, low, size in zip(at[1:], (i, j), t.low, t.x, strict=True)
            )
            seen = (down[0], across[0], met(builder, down[1], across[1]))
            place = build.mul(build.add(build.mul(i, t.seen), j), t.channels)
            with builder.loop("c", 0, t.channels, lanes) as channel:
                value = pixel(builder, source, self.x, build.add(base, channel), seen, lanes)
                builder.store(kept, build.ramp(build.add(place, channel), 1, lanes), value)
        return kept
