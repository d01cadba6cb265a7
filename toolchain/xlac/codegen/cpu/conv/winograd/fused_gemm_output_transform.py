"""The second kernel of a Winograd convolution: products at all points, and the output transform.
See `winograd.py`.
"""

from __future__ import annotations

from functools import partial

from xlac.codegen.core import loop_nest
from xlac.codegen.core.contraction.contraction import Contraction, unravel, zero
from xlac.codegen.core.contraction.packing import Panels, each_panel
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.lowered_group import KernelLaunch
from xlac.codegen.core.operands import OperandView
from xlac.codegen.cpu.conv.winograd import toom_cook
from xlac.codegen.cpu.conv.winograd.accuracy_guard import Guard, noted
from xlac.codegen.cpu.conv.winograd.direct_tiles import DirectSum
from xlac.codegen.cpu.conv.winograd.output_transform import OutputTransform
from xlac.codegen.cpu.conv.winograd.tiling import Tiling, plane
from xlac.codegen.cpu.gemm.tile_store import Panel
from xlac.codegen.schedules.conv import WinogradSchedule
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import size_hint
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Const, Expr, LoopKind
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target


def launch(
    group: Group,
    target: Target,
    name: str,
    after: Epilogue,
    t: Tiling,
    x: OperandView,
    given: Contraction,
    panels: Panels,
    guard: Guard | None,
    schedule: WinogradSchedule,
) -> KernelLaunch:
    """The kernel, from transformed input tiles and packed weights."""
    elements = Elements(Builder(), group, target)
    direct = DirectSum(elements, t, x, panels, schedule.tile.lanes)
    _Products(elements, after, given, panels, schedule, t, guard, direct).write()
    return elements.launch(name, cost.work(group))


class _Products(OutputTransform):
    """Products of a block of tiles at every point, followed by the output transform."""

    def write(self) -> None:
        """Loops over blocks of tiles and panels of columns, fused into one that may be parallel."""
        extents = [self.cut.blocks, self.cut.panels]
        threads = self.decided.threads
        kind = LoopKind.PARALLEL if threads.loops else LoopKind.SERIAL
        turns = self.cut.blocks * self.cut.panels
        with self.builder.loop("t", 0, turns, kind=kind, grain=threads.grain) as t:
            block, panel = unravel(self.builder, t, extents)
            each_panel(self.builder, self.t.columns, self.tile, panel, partial(self._piece, block))

    def _piece(self, block: Expr, column: Expr, vectors: int, _: build.Number) -> None:
        """A block of tiles by a panel of columns."""
        builder, split, t, lanes = self.builder, self.cut.rows[1], self.t, self.tile.lanes
        width, most = vectors * lanes, self.cut.block * split.step
        apart = plane(most * width)
        self.first = builder.let("m", build.mul(block, most))
        self.kept = builder.local("s", DType.F32, t.points * apart)
        if self.chunks > 1:
            with builder.loop("z", 0, t.points * apart, lanes) as z:
                builder.store(self.kept, build.ramp(z, 1, lanes), zero(DType.F32, lanes))
        brought = self.elements.local(self.brought)
        weights = builder.let("b", self.given.base([], column, toom_cook.TAPS**2 * t.channels))
        self.largest = None
        if self.guard and self.guard.limit is None:
            self.largest = builder.variable("largest", Const(0, DType.I32, lanes))
        with builder.loop("z", 0, self.chunks) as chunk:
            start = builder.let(
                "b", build.add(weights, build.mul(chunk, self.depth * toom_cook.TAPS**2 * width))
            )
            self._weights(brought, start, width)
            with builder.loop("q", 0, t.points) as pair:
                left = builder.let(
                    "a",
                    build.add(
                        build.mul(pair, plane(t.tiles * t.channels)), build.mul(chunk, self.depth)
                    ),
                )
                right = builder.let("b", build.mul(pair, plane(self.depth * width)))
                self.place = build.mul(pair, apart)

                place = Panel([], column, vectors, 0, left, right)

                def tile(start: Expr, size: int, place: Panel = place) -> None:
                    self._tile(place, (build.index(0), start), (1, size))

                self._cover(split, block if self.cut.blocks != 1 else None, tile)
        if self.guard:
            self.limit = self.guard.known(self.elements)
            if self.largest is not None:
                self.limit = self.guard.computed_limit(builder, self.largest)
        count: Expr | int = most
        if size_hint(self.cut.blocks) * most > t.tiles:
            count = loop_nest.bounded(
                builder,
                build.apply(Primitive.MIN, build.index(most), build.sub(t.tiles, self.first)),
                most,
            )
        with builder.loop("i", 0, count) as number:
            self._results(number, column, width, apart)

    def _weights(self, to: Buffer, start: Expr, width: int) -> None:
        """Transforms the panel's weights for a chunk of channels."""
        t, builder, n, lanes, taps = (
            self.t,
            self.builder,
            self.t.seen,
            self.tile.lanes,
            toom_cook.TAPS,
        )
        source = self.elements.parameter(self.given.source.value, Access.READ)
        with (
            builder.loop("k", 0, self.depth) as channel,
            builder.loop("v", 0, width, lanes) as vector,
        ):
            first = builder.let(
                "w", build.add(build.add(start, build.mul(channel, taps**2 * width)), vector)
            )
            columns = []
            for j in range(taps):
                filters = [
                    builder.let(
                        "w", build.load(source, build.add(first, (i * taps + j) * width), lanes)
                    )
                    for i in range(taps)
                ]
                if self.largest is not None:
                    for weight in filters:
                        noted(builder, self.largest, weight, lanes)
                columns.append(toom_cook.of_filters(builder, self.target, t.results, filters))
            place = builder.let("p", build.add(build.mul(channel, width), vector))
            for i in range(n):
                row = toom_cook.of_filters(
                    builder, self.target, t.results, [column[i] for column in columns]
                )
                for j, value in enumerate(row):
                    builder.store(
                        to,
                        build.ramp(
                            build.add(place, (i * n + j) * plane(self.depth * width)), 1, lanes
                        ),
                        value,
                    )
