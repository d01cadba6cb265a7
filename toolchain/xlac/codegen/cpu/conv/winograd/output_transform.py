"""The output transform of a Winograd tile, and the epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import product

from xlac.codegen.core import loop_nest
from xlac.codegen.core.contraction.contraction import Axis, Contraction, OperandSource, unravel
from xlac.codegen.core.contraction.packing import Panels
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.lowered_group import Scratch
from xlac.codegen.cpu.conv.winograd import toom_cook
from xlac.codegen.cpu.conv.winograd.accuracy_guard import Guard
from xlac.codegen.cpu.conv.winograd.direct_tiles import DirectSum
from xlac.codegen.cpu.conv.winograd.tiling import Tiling, plane
from xlac.codegen.cpu.gemm.gemm import Gemm
from xlac.codegen.cpu.gemm.tile_store import Panel
from xlac.codegen.schedules.conv import WinogradSchedule
from xlac.codegen.schedules.gemm import CacheBlocking, GemmSchedule
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Buffer, Const, Expr, Var
from xlac_sdk.kernel_ir.primitives import Primitive


def gemm_schedule(schedule: WinogradSchedule) -> GemmSchedule:
    """The schedule of the products at one point, whose weights are in a local array."""
    return GemmSchedule(
        False,
        schedule.tile,
        "constant",
        DType.F32,
        CacheBlocking("second", schedule.block, 1, 0),
        schedule.unroll,
        True,
        schedule.hold,
        schedule.threads,
        prefetch=False,
        transposed_store=False,
        epilogue_loop=schedule.epilogue_loop,
        backward=False,
    )


class OutputTransform(Gemm):
    """Transforms the products of a tile to its results, and stores them."""

    place: Expr  # the offset of the products at each point
    # the largest magnitude of the panel's weights, if their limit is computed at run time
    largest: Var | None = None
    limit: Expr | None = None  # the largest pixel of a tile that is computed by Winograd

    def __init__(
        self,
        elements: Elements,
        after: Epilogue,
        given: Contraction,
        panels: Panels,
        schedule: WinogradSchedule,
        t: Tiling,
        guard: Guard | None,
        direct: DirectSum,
    ) -> None:
        tile, depth = schedule.tile, schedule.chunk
        self.decided, self.depth, self.chunks = schedule, depth, t.channels // depth
        self.brought = Scratch(DType.F32, t.points * plane(depth * tile.width), "weights")
        inner = (Axis(depth, 1, tile.width),)
        c = replace(given, inner=inner, right=OperandSource(self.brought, DType.F32))
        products = Panels(c.right, (), inner, packed=True)
        super().__init__(elements, after, c, products, gemm_schedule(schedule))
        self.t, self.given, self.guard, self.direct = t, panels, guard, direct
        self.kept: Buffer | None = None
        self.first: Expr = build.index(0)

    def _finish(
        self,
        panel: Panel,
        sums: Sequence[Sequence[Expr]],
        rows: list[tuple[int, int]],
        start: tuple[Expr, Expr],
        size: tuple[int, int],
    ) -> None:
        """Stores products in memory until those of all points and channels are complete."""
        assert self.kept is not None
        lanes, width = self.tile.lanes, panel.vectors * self.tile.lanes
        base = build.add(self.place, build.mul(build.sub(start[1], self.first), width))
        for row, totals in enumerate(sums):
            for v, total in enumerate(totals):
                where = build.ramp(build.add(base, row * width + v * lanes), 1, lanes)
                value = (
                    build.apply(Primitive.ADD, build.load(self.kept, where), total)
                    if self.chunks > 1
                    else total
                )
                self.builder.store(self.kept, where, value)

    def _at(self, number: Expr) -> tuple[Expr, Expr, Expr]:
        """The batch, row and column of the first result of one of the block's tiles."""
        t, builder = self.t, self.builder
        batch, *corner = unravel(builder, build.add(self.first, number), (t.batch, *t.grid))
        y, x = (builder.let("p", build.mul(c, t.results)) for c in corner)
        return build.add(batch, t.first), y, x

    def _results(self, number: Expr, column: Expr, width: int, apart: int) -> None:
        """One tile's results for a panel: by the output transform, or the direct sum where the
        guard requires it.
        """
        builder, at = self.builder, self._at(number)
        plain = None
        if self.guard and self.limit is not None:
            tile = build.add(self.first, number)
            plain = self.guard.plainly(self.elements, tile, self.limit)
        with (
            builder.when(plain) if plain else nullcontext(),
            builder.loop("v", 0, width, self.tile.lanes) as lane,
        ):
            rows = self._of_products(build.add(build.mul(number, width), lane), apart)
            self._stored(rows, at, build.add(column, lane))
        if plain:
            with builder.when(build.apply(Primitive.EQ, plain, Const(False, DType.BOOL))):
                self.direct.write(
                    at, column, width, lambda rows, column: self._each(rows, at, column)
                )

    def _of_products(self, place: Expr, apart: int) -> list[list[Expr]]:
        """The output transform of one tile and one vector of channels."""
        assert self.kept is not None
        t, builder, n, lanes = self.t, self.builder, self.t.seen, self.tile.lanes
        columns = []
        for j in range(n):
            values = [
                builder.let(
                    "x", build.load(self.kept, build.add(place, (i * n + j) * apart), lanes)
                )
                for i in range(n)
            ]
            columns.append(toom_cook.of_products(builder, self.target, t.results, values))
        return [
            toom_cook.of_products(
                builder, self.target, t.results, [values[i] for values in columns]
            )
            for i in range(t.results)
        ]

    def _stored(self, rows: list[list[Expr]], at: tuple[Expr, Expr, Expr], column: Expr) -> None:
        """The epilogue of a tile's results: unrolled, or a loop if it is long or the tile extends
        beyond the result.
        """
        t, builder, (batch, y, x) = self.t, self.builder, at
        if self.schedule.epilogue_loop:
            self._each(rows, at, column)
            return
        channels = build.ramp(column, 1, self.tile.lanes)
        fits = [
            build.apply(Primitive.LE, place, build.index(size - t.results))
            for place, size in zip((y, x), t.pixels, strict=True)
        ]
        inside = builder.let("inside", build.apply(Primitive.AND, *fits))
        with nullcontext() if t.whole else builder.when(inside):
            for i, j in product(range(t.results), repeat=2):
                self.epilogue.store(
                    self.elements, (batch, build.add(y, i), build.add(x, j), channels), rows[i][j]
                )
        if not t.whole:
            with builder.when(build.apply(Primitive.EQ, inside, Const(False, DType.BOOL))):
                self._each(rows, at, column)

    def _each(self, rows: list[list[Expr]], at: tuple[Expr, Expr, Expr], column: Expr) -> None:
        """The pixels of a tile that are inside the result, in a loop."""
        t, builder, lanes, (batch, y, x) = self.t, self.builder, self.tile.lanes, at
        kept = builder.local("y", DType.F32, t.results**2 * lanes)
        for number, value in enumerate(value for row in rows for value in row):
            builder.store(kept, build.ramp(number * lanes, 1, lanes), value)
        height, width = (
            t.results
            if size % t.results == 0
            else loop_nest.bounded(
                builder,
                build.apply(Primitive.MIN, build.index(t.results), build.sub(size, first)),
                t.results,
            )
            for first, size in zip((y, x), t.pixels, strict=True)
        )
        with builder.loop("i", 0, height) as i, builder.loop("j", 0, width) as j:
            place = build.mul(build.add(build.mul(i, t.results), j), lanes)
            where = (batch, build.add(y, i), build.add(x, j), build.ramp(column, 1, lanes))
            self.epilogue.store(self.elements, where, build.load(kept, place, lanes))
