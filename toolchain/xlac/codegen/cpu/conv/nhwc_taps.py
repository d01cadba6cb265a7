"""The taps of a depthwise NHWC convolution: which are inside x, and their products."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from xlac.codegen.core.contraction.byte_words import SIGNS
from xlac.codegen.core.contraction.contraction import multiply_add, read, zero
from xlac.codegen.core.contraction.packing import Panels
from xlac.codegen.core.contraction.tiling import TileSplit, split_of
from xlac.codegen.core.contraction.window_sums import WindowSums
from xlac.codegen.core.elements import Elements
from xlac.codegen.cpu.conv import byte_taps
from xlac.codegen.schedules.conv import DepthwiseNhwcSchedule
from xlac.ir.dims import Dim, static
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Const, Expr, Var
from xlac_sdk.kernel_ir.primitives import Primitive


class NhwcTaps:
    """A tile of pixels by vectors of channels, and its taps inside of x."""

    def __init__(self, sums: WindowSums) -> None:
        g = sums.geometry
        self.elements = Elements(Builder(), sums.group, sums.target)
        self.builder, self.target = self.elements.builder, sums.target
        self.after, self.g, self.left = sums.after, g, sums.left
        self.accumulate, self.taps = sums.accumulate, sums.taps
        self.able_words = byte_taps.able(sums)
        (self.channels,) = static((g.result["C"],))
        self.across = g.op.spatial[-1] if g.op.spatial else ""
        self.width = g.result.get(self.across, 1)
        # counters of the loops around rows
        self.letters = [s for s in g.op.layout[2] if s not in ("C", self.across)]

    def follow(self, schedule: DepthwiseNhwcSchedule) -> None:
        """Sets the tile sizes from a schedule."""
        self.schedule, self.lanes = schedule, schedule.lanes
        self.ragged = self.channels % self.lanes
        self.row_tiles = split_of(self.width, schedule.pixels)

    def panels(self, vectors: int) -> TileSplit:
        """All vectors of channels, in panels of `vectors`."""
        return TileSplit(-(-self.channels // self.lanes), vectors)

    def extents(self, vectors: int) -> list[Dim]:
        """The extents of the loops over panels of `vectors` vectors of channels."""
        return [*(self.g.result[s] for s in self.letters), self.panels(vectors).count]

    def _inside(self, first: int, size: int) -> bool:
        """Whether the windows of `size` pixels are inside x along the row."""
        return all(
            self._column(first + i, tap)
            for i in (0, size - 1)
            for tap in (0, self.taps.get(self.across, 1) - 1)
        )

    def _column(self, pixel: int, tap: int) -> bool:
        """Whether the column that a tap of a pixel reads is inside x; None if it always is."""
        edge = self.g.edges.get(self.across)
        if edge is None:
            return True
        axis = self.g.op.spatial.index(self.across)
        (size,) = static((edge.extent,))
        return (
            0
            <= pixel * self.g.op.strides[axis] + tap * self.g.op.rhs_dilation[axis] - edge.low
            < size
        )

    def _taps(self, letter: str, at: Expr) -> tuple[Expr, Expr]:
        """The first tap of a window that is inside x along an axis, and one past the last."""
        taps, edge = self.taps[letter], self.g.edges.get(letter)
        if edge is None:
            return build.index(0), build.index(taps)
        axis = self.g.op.spatial.index(letter)
        by, moved = self.g.op.rhs_dilation[axis], build.mul(at, self.g.op.strides[axis])
        before = build.apply(Primitive.MAX, build.sub(edge.low, moved), build.index(0))
        within = build.apply(
            Primitive.MAX, build.sub(edge.low + edge.extent, moved), build.index(0)
        )
        first, stop = (build.div(build.add(n, by - 1), by) for n in (before, within))
        return build.apply(Primitive.MIN, first, build.index(taps)), build.apply(
            Primitive.MIN, stop, build.index(taps)
        )

    def _tile(
        self,
        at: dict[str, Expr],
        pixel: Expr,
        count: int,
        channel: Expr,
        lanes: Sequence[int],
        base: Expr,
        mask: Expr | None,
        panels: Panels,
        width: int,
    ) -> None:
        """`count` pixels by vectors of channels; the last vector is masked if there is a mask."""
        builder, g = self.builder, self.g
        moves = g.moves(self.across) if self.across else 0
        base = builder.let("a", build.add(base, build.mul(pixel, moves)))
        sums: list[list[Var]] = [
            [builder.variable("c", zero(self.accumulate, n)) for n in lanes] for _ in range(count)
        ]
        outer = [s for s in g.op.spatial if s != self.across]
        strides = panels.strides(width)
        steps = dict(zip(g.op.spatial, strides, strict=False))

        def taps(level: int, where: Expr, weight: Expr) -> None:
            if level < len(outer):
                letter = outer[level]
                with builder.loop("k", *self._taps(letter, at[letter])) as k:
                    further = builder.let("a", build.add(where, build.mul(k, g.reaches(letter))))
                    taps(
                        level + 1,
                        further,
                        builder.let("b", build.add(weight, build.mul(k, steps[letter]))),
                    )
                return
            step = steps.get(self.across, 0)
            add = self._add_words if self.schedule.words else self._add_taps
            add(sums, pixel, where, weight, step, lanes, mask, panels)

        taps(0, base, channel)
        letters = g.op.layout[2]
        for i, j in product(range(count), range(len(lanes))):
            column = build.ramp(build.add(channel, j * self.lanes), 1, lanes[j])
            known = {**at, "C": column}
            if self.across:
                known[self.across] = build.add(pixel, i)
            with self.elements.masked(mask if j == len(lanes) - 1 else None):
                place = tuple(g.place(s, known[s]) for s in letters)
                self.after.store(self.elements, place, sums[i][j])

    def _add_taps(
        self,
        sums: list[list[Var]],
        pixel: Expr,
        where: Expr,
        weight: Expr,
        step: Dim,
        lanes: Sequence[int],
        mask: Expr | None,
        panels: Panels,
    ) -> None:
        """Adds the products of the taps along `across`, whose weights are `step` apart; a column
        that several results use is loaded once.
        """
        builder, g = self.builder, self.g
        moves = g.moves(self.across) if self.across else 0
        reaches = g.reaches(self.across) if self.across else 0
        for j, n in enumerate(lanes):
            on = mask if j == len(lanes) - 1 else None
            seen: dict[Dim, Expr] = {}
            for tap in range(self.taps.get(self.across, 1)):
                weight_at = build.add(weight, tap * step + j * self.lanes)
                value = builder.let(
                    "w", read(self.elements, panels.source, weight_at, n, self.accumulate)
                )
                for i, row in enumerate(sums):
                    if isinstance(pixel, Const) and not self._column(int(pixel.value) + i, tap):
                        continue
                    offset = moves * i + reaches * tap
                    if offset not in seen:
                        at = build.add(where, offset + j * self.lanes)
                        seen[offset] = builder.let(
                            "x", read(self.elements, self.left, at, n, self.accumulate, on)
                        )
                    builder.assign(row[j], multiply_add(self.target, seen[offset], value, row[j]))

    def _add_words(
        self,
        sums: list[list[Var]],
        pixel: Expr,
        where: Expr,
        weight: Expr,
        step: Dim,
        lanes: Sequence[int],
        mask: Expr | None,
        panels: Panels,
    ) -> None:
        """The same in words of four taps, each of which several pixels may use."""
        builder, g = self.builder, self.g
        word, by = SIGNS[self.left.dtype], g.x[self.across]
        axis = g.op.spatial.index(self.across)
        apart = g.op.strides[axis], g.op.rhs_dilation[axis]
        for j, n in enumerate(lanes):
            on = mask if j == len(lanes) - 1 else None
            known: dict[int, Expr] = {}  # columns of x
            weights: dict[int, Expr] = {}
            for one in byte_taps.row_words(len(sums), *apart, self.taps[self.across]):
                columns: list[Expr] = []
                for place in one.places(apart[1]):
                    if place is None or not self._meets(pixel, place):
                        columns.append(zero(self.left.dtype, n))
                        continue
                    if place not in known:
                        at = build.add(where, by * place + j * self.lanes)
                        value = read(self.elements, self.left, at, n, self.left.dtype, on)
                        known[place] = builder.let("x", value)
                    columns.append(known[place])
                if all(isinstance(column, Const) for column in columns):
                    continue
                values = builder.let("x", byte_taps.joined(columns, word))
                for i, number in one.uses:
                    if number not in weights:
                        at = build.add(weight, number * step + j * self.lanes)
                        loaded = read(self.elements, panels.source, at, n, self.accumulate)
                        weights[number] = builder.let("w", loaded)
                    total = sums[i][j]
                    product = build.apply(Primitive.DOT4, values, weights[number], total)
                    builder.assign(total, product)

    def _meets(self, pixel: Expr, place: int) -> bool:
        """Whether a column of a tile that begins at a pixel is inside x."""
        edge = self.g.edges.get(self.across)
        if edge is None or not isinstance(pixel, Const):
            return True
        (size,) = static((edge.extent,))
        stride = self.g.op.strides[self.g.op.spatial.index(self.across)]
        return 0 <= int(pixel.value) * stride + place - edge.low < size
