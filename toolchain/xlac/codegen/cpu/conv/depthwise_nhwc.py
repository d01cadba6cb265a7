"""Depthwise convolutions of NHWC tensors: channels are the lanes of vectors, so nothing is
broadcast.

A tile is some pixels of a row by some vectors of channels. The columns of x that the windows of
neighbouring pixels share are loaded once.
"""

from __future__ import annotations

from functools import partial

from xlac.codegen.core.contraction.contraction import unravel
from xlac.codegen.core.contraction.packing import Panels
from xlac.codegen.core.contraction.tiling import OpenTileSplit, TileSplit
from xlac.codegen.core.contraction.window_sums import WindowSums
from xlac.codegen.core.lowered_group import KernelLaunch
from xlac.codegen.cpu.conv import byte_taps, nhwc_choice
from xlac.codegen.cpu.conv.nhwc_taps import NhwcTaps
from xlac.fusion import cost
from xlac.ir.dims import Dim, volume
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr, LoopKind
from xlac_sdk.kernel_ir.primitives import Primitive


def launches(sums: WindowSums) -> list[KernelLaunch]:
    """The kernel, after the one that lays out the weights by tap and channel if they are not
    constant.
    """
    writer = _DepthwiseNhwc(sums)
    fits = partial(nhwc_choice.check, taps=writer)
    writer.follow(sums.decisions.settle(sums.name, nhwc_choice.choose(writer), fits))
    lanes, dtype = writer.lanes, sums.right.dtype
    packed = dtype if dtype is DType.I8 else sums.accumulate
    if writer.schedule.words:
        panels, before = byte_taps.panels(sums, lanes), list[KernelLaunch]()
    else:
        before, panels = sums.weight_panel(lanes, packed)
    writer.write(panels, -(-writer.channels // lanes) * lanes)
    return [*before, writer.elements.launch(sums.name, cost.work(sums.group))]


class _DepthwiseNhwc(NhwcTaps):
    def write(self, panels: Panels, width: int) -> None:
        builder, threads, wide = self.builder, self.schedule.threads, self.schedule.vectors
        pixels, panels_split = self.row_tiles, self.panels(wide)
        extents = self.extents(wide)
        kind = LoopKind.PARALLEL if threads.loops else LoopKind.SERIAL
        with builder.loop("t", 0, volume(tuple(extents)), kind=kind, grain=threads.grain) as t:
            *around, panel = unravel(builder, t, extents)
            at = dict(zip(self.letters, around, strict=True))
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
        pixels: TileSplit | OpenTileSplit,
        panels: Panels,
        width: int,
    ) -> None:
        """A row of pixels, for one panel of channels."""
        builder, g = self.builder, self.g
        channel = builder.let("n", build.mul(panel, self.schedule.vectors * self.lanes))
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
        for first, stop, size in self._stretches(pixels):
            with builder.loop("m", first, stop, size) as m:
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

    def _stretches(self, pixels: TileSplit | OpenTileSplit) -> list[tuple[Dim, Dim, int]]:
        """The tiles of a row as (first pixel, one past the last, pixels of each); tiles whose
        windows leave x are separate. Rows of an open size have a copy of x with its padding.
        """
        if isinstance(pixels, OpenTileSplit):
            full = pixels.full * pixels.step
            return [(0, full, pixels.step), (full, pixels.extent, 1)]
        tiles = [(k * pixels.step, pixels.step) for k in range(pixels.full)]
        tiles += [(pixels.full * pixels.step, pixels.rest)] * bool(pixels.rest)
        stretches: list[tuple[int, int, int]] = []
        joins = False
        for first, size in tiles:
            inside = self._inside(first, size)
            if joins and inside and stretches[-1][2] == size:
                stretches[-1] = (stretches[-1][0], stretches[-1][1] + 1, size)
            else:
                stretches.append((first, 1, size))
            joins = inside
        return [(first, first + count * size, size) for first, count, size in stretches]
