"""Depthwise convolutions: every channel by itself, so channels are the lanes of vectors and nothing
is broadcast.

A tile is some pixels of a row by some vectors of channels. Neighbouring pixels share the columns of
x that their windows have in common, which are loaded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from xlac.codegen.core import packing
from xlac.codegen.core.contraction import (
    Axis,
    Contraction,
    OperandSource,
    accumulator,
    multiply_add,
    read,
    unravel,
    zero,
)
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.loop_nest import CHUNKS
from xlac.codegen.core.lowered_group import KernelLaunch
from xlac.codegen.core.operands import OperandView
from xlac.codegen.core.packing import Panels
from xlac.codegen.core.tiling import RegisterTile, TileSplit, even_split
from xlac.codegen.cpu.gemm import register_tile
from xlac.codegen.cpu.gemm.cache_blocking import PARALLEL_FLOPS
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, size_hint, static, volume
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Const, Expr, LoopKind, Var
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

if TYPE_CHECKING:
    from xlac.codegen.core.conv import ConvGeometry


def launches(
    group: Group,
    target: Target,
    name: str,
    after: Epilogue,
    g: ConvGeometry,
    left: OperandSource,
    right: OperandSource,
    kernel: OperandView,
) -> list[KernelLaunch]:
    """The kernel, after the one that lays out the weights by tap and channel when they are not
    constant.
    """
    elements = Elements(Builder(), group, target)
    writer = _DepthwiseNhwc(elements, after, g, left, target)
    taps = tuple(Axis(writer.taps[s], 0, g.kernel[s]) for s in g.op.spatial) or (Axis(1),)
    channels = Axis(writer.channels, 0, g.kernel["O"])
    whole = -(-writer.channels // writer.lanes)
    c = Contraction(
        (), (Axis(1), Axis(1)), channels, taps, left, right, writer.accumulate, lambda o, r, n: ()
    )
    tile = RegisterTile((1, 1), whole, writer.lanes)
    before: list[KernelLaunch] = []
    if right.constant:
        dtype = right.dtype if right.dtype is DType.I8 else writer.accumulate
        panels = packing.constant(c, tile, dtype, kernel.compute, kernel.key)
    else:
        made, panels = packing.running(group, target, f"{name}_pack", c, tile, writer.accumulate)
        before.append(made)
    writer.write(panels, whole * writer.lanes)
    return [*before, elements.launch(name, cost.work(group))]


class _DepthwiseNhwc:
    def __init__(
        self,
        elements: Elements,
        after: Epilogue,
        g: ConvGeometry,
        left: OperandSource,
        target: Target,
    ) -> None:
        self.elements, self.builder, self.after, self.g, self.left = (
            elements,
            elements.builder,
            after,
            g,
            left,
        )
        self.target = target
        anchor = after.anchor
        self.accumulate = accumulator(left.dtype, anchor.type.dtype)
        self.taps = dict(zip(g.taps, static(tuple(g.taps.values())), strict=True))
        (self.channels,) = static((g.result["C"],))
        self.lanes = register_tile.lanes_for(target, self.accumulate, self.channels)
        self.across = g.op.spatial[-1] if g.op.spatial else ""
        self.ragged = self.channels % self.lanes

    def write(self, panels: Panels, width: int) -> None:
        g, builder = self.g, self.builder
        letters = [s for s in g.op.layout[2] if s not in ("C", self.across)]
        vectors = -(-self.channels // self.lanes)
        taps = prod(self.taps[s] for s in g.op.spatial)
        wide = 2 if vectors > 1 and self.target.vector_registers >= 32 else 1
        reach = self.taps.get(self.across, 1)
        room = self.target.vector_registers - wide * (min(reach, 3) + 1)
        (row,) = static((g.result.get(self.across, 1),))
        pixels = even_split(row, max(1, min(8, room // (2 * wide))))
        panels_split = TileSplit(vectors, wide)
        extents = [*(g.result[s] for s in letters), panels_split.count]
        turns = volume(tuple(extents))
        items = size_hint(turns)
        flops = 2 * taps * size_hint(volume(tuple(g.result.values())))
        kind = LoopKind.PARALLEL if items > 1 and flops >= PARALLEL_FLOPS else LoopKind.SERIAL
        grain = min(max(1, PARALLEL_FLOPS // 4 * items // max(1, flops)), max(1, items // CHUNKS))
        with builder.loop("t", 0, turns, kind=kind, grain=grain) as t:
            *around, panel = unravel(builder, t, extents)
            at = dict(zip(letters, around, strict=True))
            special, final = bool(panels_split.rest or self.ragged), panels_split.count - 1
            if not special:
                self._row(at, panel, wide, False, pixels, panels, width)
                return
            if final:
                with builder.when(build.apply(Primitive.LT, panel, build.index(final))):
                    self._row(at, panel, wide, False, pixels, panels, width)
                with builder.when(build.apply(Primitive.EQ, panel, build.index(final))):
                    self._row(
                        at,
                        build.index(final),
                        panels_split.rest or wide,
                        True,
                        pixels,
                        panels,
                        width,
                    )
            else:
                self._row(
                    at, build.index(0), panels_split.rest or wide, True, pixels, panels, width
                )

    def _row(
        self,
        at: dict[str, Expr],
        panel: Expr,
        vectors: int,
        last: bool,
        pixels: TileSplit,
        panels: Panels,
        width: int,
    ) -> None:
        """A row of pixels, for one panel of channels."""
        builder, g = self.builder, self.g
        step = 2 if vectors == 2 or self.target.vector_registers >= 32 else 1
        channel = builder.let(
            "n",
            build.mul(
                panel, (2 if step == 2 and -(-self.channels // self.lanes) > 1 else 1) * self.lanes
            ),
        )
        start: Expr = build.add(channel, self.left.offset)
        for letter, counter in at.items():
            start = build.add(
                start, build.mul(counter, g.x["N"] if letter == "N" else g.moves(letter))
            )
        base = builder.let("a", start)
        partial = self.ragged if last else 0
        mask = None
        if partial and self.target.masked and self.lanes > 1:
            mask = builder.let(
                "mask",
                build.apply(Primitive.LT, build.ramp(0, 1, self.lanes), build.index(partial)),
            )
        for first, count, size in self._stretches(pixels):
            with builder.loop("m", first, first + count * size, size) as m:
                whole = vectors - bool(partial and mask is None)
                if whole:
                    self._tile(
                        at,
                        m,
                        size,
                        channel,
                        [self.lanes] * whole,
                        base,
                        None if whole < vectors else mask,
                        panels,
                        width,
                    )
                if whole < vectors:
                    with builder.loop(
                        "c", whole * self.lanes, whole * self.lanes + partial
                    ) as extra:
                        moved = build.add(channel, extra)
                        self._tile(
                            at, m, size, moved, [1], build.add(base, extra), None, panels, width
                        )

    def _stretches(self, pixels: TileSplit) -> list[tuple[int, int, int]]:
        """The tiles of a row as (first pixel, how many tiles, pixels of one); one whose windows
        leave x is by itself.
        """
        tiles = [(k * pixels.step, pixels.step) for k in range(pixels.full)]
        tiles += [(pixels.full * pixels.step, pixels.rest)] * bool(pixels.rest)
        found: list[tuple[int, int, int]] = []
        joins = False
        for first, size in tiles:
            inside = self._inside(first, size)
            if joins and inside and found[-1][2] == size:
                found[-1] = (found[-1][0], found[-1][1] + 1, size)
            else:
                found.append((first, 1, size))
            joins = inside
        return found

    def _inside(self, first: int, size: int) -> bool:
        """Whether the windows of `size` pixels stay inside x along the row."""
        return all(
            self._column(first + i, tap)
            for i in (0, size - 1)
            for tap in (0, self.taps.get(self.across, 1) - 1)
        )

    def _column(self, pixel: int, tap: int) -> bool:
        """Whether what a tap of a pixel reads along the row is inside x."""
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
        """The first tap of a window that is inside x along an axis, and the one after the last."""
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
        """`count` pixels by vectors of channels; the last vector is masked when there is a mask."""
        builder, g = self.builder, self.g
        moves = g.moves(self.across) if self.across else 0
        reaches = g.reaches(self.across) if self.across else 0
        base = builder.let("a", build.add(base, build.mul(pixel, moves)))
        sums: list[list[Var]] = [
            [builder.variable("c", zero(self.accumulate, n)) for n in lanes] for _ in range(count)
        ]
        outer = [s for s in g.op.spatial if s != self.across]
        strides = panels.strides(width)
        steps = dict(zip(g.op.spatial, strides, strict=False))
        last = self.taps.get(self.across, 1)

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
            for j, n in enumerate(lanes):
                on = mask if j == len(lanes) - 1 else None
                seen: dict[Dim, Expr] = {}
                for tap in range(last):
                    weight_at = build.add(weight, tap * steps.get(self.across, 0) + j * self.lanes)
                    value = builder.let(
                        "w", read(self.elements, panels.source, weight_at, n, self.accumulate)
                    )
                    for i in range(count):
                        if isinstance(pixel, Const) and not self._column(int(pixel.value) + i, tap):
                            continue
                        offset = moves * i + reaches * tap
                        if offset not in seen:
                            pixel_at = build.add(where, offset + j * self.lanes)
                            seen[offset] = builder.let(
                                "x",
                                read(self.elements, self.left, pixel_at, n, self.accumulate, on),
                            )
                        builder.assign(
                            sums[i][j], multiply_add(self.target, seen[offset], value, sums[i][j])
                        )

        taps(0, base, channel)
        letters = g.op.layout[2]
        for i, j in product(range(count), range(len(lanes))):
            column = build.ramp(build.add(channel, j * self.lanes), 1, lanes[j])
            known = {**at, "C": column}
            if self.across:
                known[self.across] = build.add(pixel, i)
            with self.elements.masked(mask if j == len(lanes) - 1 else None):
                self.after.store(self.elements, tuple(known[s] for s in letters), sums[i][j])
