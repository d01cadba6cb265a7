"""The two kernels of a convolution that multiplies at points: see `winograd.py`."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np

from xlac.ir.dims import at_opt, static
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.schedule import ahead, cost, nest, packing, tiles, toom_cook
from xlac.schedule.access import Run
from xlac.schedule.contraction import Axis, Contraction, Source, unravel
from xlac.schedule.cuts import PARALLEL_FLOPS, Cut
from xlac.schedule.elements import Elements, linear
from xlac.schedule.epilogue import Epilogue
from xlac.schedule.group import Group, Launching, Scratch
from xlac.schedule.operands import View
from xlac.schedule.outer_product import LONG_EPILOGUE, OuterProduct
from xlac.schedule.packing import Panels, each_panel, panel_count
from xlac.schedule.tiles import Tile, even, split_of
from xlac_sdk import build
from xlac_sdk.build import Builder
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel import Access, Buffer, Const, Expr, LoopKind, Var, Work
from xlac_sdk.primitives import Primitive
from xlac_sdk.target import Target

PIECES = 4  # pieces a thread: fewer than of other loops, so that each uses weights often


@dataclass(frozen=True, slots=True)
class Tiling:
    """A convolution as tiles of `results` by `results` pixels."""

    results: int
    batch: int
    x: tuple[int, int]  # height and width
    low: tuple[int, int]  # padding above and to the left
    pixels: tuple[int, int]  # of the result
    channels: int
    columns: int

    @property
    def points(self) -> int:
        """Pairs of points: products for each tile and each pair of channels."""
        return self.seen**2

    @property
    def seen(self) -> int:
        """Pixels along an axis that a tile sees."""
        return self.results + toom_cook.TAPS - 1

    @property
    def grid(self) -> tuple[int, int]:
        """Tiles down and across."""
        return -(-self.pixels[0] // self.results), -(-self.pixels[1] // self.results)

    @property
    def tiles(self) -> int:
        return self.batch * self.grid[0] * self.grid[1]

    @property
    def whole(self) -> bool:
        """Whether no tile goes beyond the result."""
        return not any(n % self.results for n in self.pixels)


def launches(group: Group, target: Target, name: str, after: Epilogue, t: Tiling, x: View, kernel: View) -> list[Launching]:
    """Both kernels, over an x whose channels are neighbours and weights that are known while compiling."""
    seen = Scratch(DType.F32, t.points * t.tiles * t.channels, "tiles")
    first = Elements(Builder(), group, target)
    _Pixels(first, t, x, seen, target).write()
    size = t.points * t.tiles * t.channels
    work = Work(4 * size, (t.batch * t.x[0] * t.x[1] * t.channels + size) * DType.F32.nbytes)
    second = Elements(Builder(), group, target)
    _products(second, after, t, seen, kernel, target).write()
    note = f"brings what each {t.results}x{t.results} pixels see to points"
    return [first.launch(f"{name}_points", work, note), second.launch(name, cost.work(group))]


class _Pixels:
    """Brings what every tile sees to pairs of points: for each pair, tiles by channels."""

    def __init__(self, elements: Elements, t: Tiling, x: View, to: Scratch, target: Target) -> None:
        self.elements, self.builder, self.t, self.x, self.target = elements, elements.builder, t, x, target
        self.source, self.to = elements.parameter(x.value, Access.READ), elements.parameter(to, Access.WRITE)

    def write(self) -> None:
        """Loops over batches and tiles, in parallel."""
        t, builder = self.t, self.builder
        loops = [Run(size, (axis,)) for axis, size in enumerate((t.batch, *t.grid))]
        with nest.outer(builder, self.target, loops, t.points * t.channels * 4) as counters:
            number, down, across = (counters[run] for run in loops)
            tile = linear((number, down, across), (t.grid[0] * t.grid[1], t.grid[1], 1))
            base = builder.let("a", build.add(build.mul(number, self.x.strides[0]), self.x.offset))
            first = tuple(
                builder.let("p", build.sub(build.mul(c, t.results), low)) for c, low in zip((down, across), t.low, strict=True)
            )
            inside = self._inside(first)
            if inside is None:
                self._tile(base, first, tile, edge=False)
                return
            inside = builder.let("inside", inside)
            with builder.when(inside):
                self._tile(base, first, tile, edge=False)
            with builder.when(build.apply(Primitive.EQ, inside, Const(False, DType.BOOL))):
                self._tile(base, first, tile, edge=True)

    def _inside(self, first: tuple[Expr, ...]) -> Expr | None:
        """Whether all that a tile sees is in x; None: always."""
        found = None
        for at, size, low, grid in zip(first, self.t.x, self.t.low, self.t.grid, strict=True):
            last = build.sub(size, self.t.seen)
            checks = [build.apply(Primitive.LE, build.index(0), at)] if low > 0 else []
            if (grid - 1) * self.t.results - low + self.t.seen > size:
                checks.append(build.apply(Primitive.LE, at, last))
            for check in checks:
                found = check if found is None else build.apply(Primitive.AND, found, check)
        return found

    def _tile(self, base: Expr, first: tuple[Expr, ...], tile: Expr, edge: bool) -> None:
        """One tile, a vector of channels at a time. At an edge of x, pixels outside are 0."""
        t, builder, n, lanes = self.t, self.builder, self.t.seen, self.target.lanes(DType.F32)
        lines = [[self._line(at, k, size, edge) for k in range(n)] for at, size in zip(first, t.x, strict=True)]
        with builder.loop("c", 0, t.channels, lanes) as channel:
            here = build.add(base, channel)
            columns = []
            for across, valid_across in lines[1]:
                pixels = []
                for down, valid_down in lines[0]:
                    at = build.add(here, build.add(build.mul(down, self.x.strides[1]), build.mul(across, self.x.strides[2])))
                    value = build.load(self.source, at, lanes)
                    if valid_down is not None and valid_across is not None:
                        valid = build.splat(build.apply(Primitive.AND, valid_down, valid_across), lanes)
                        value = build.select(valid, value, Const(0.0, DType.F32, lanes))
                    pixels.append(builder.let("x", value))
                columns.append(toom_cook.of_values(builder, self.target, t.results, pixels))
            begin = builder.let("v", build.add(build.mul(tile, t.channels), channel))
            for i in range(n):
                row = toom_cook.of_values(builder, self.target, t.results, [column[i] for column in columns])
                for j, value in enumerate(row):
                    place = build.add(begin, (i * n + j) * t.tiles * t.channels)
                    builder.store(self.to, build.ramp(place, 1, lanes), value)

    def _line(self, first: Expr, number: int, size: int, edge: bool) -> tuple[Expr, Expr | None]:
        """The place of a row or column of pixels, moved to one of x where it is outside, and whether it is inside."""
        at = build.add(first, number)
        if not edge:
            return at, None
        valid = build.apply(Primitive.AND, build.apply(Primitive.LE, build.index(0), at), build.apply(Primitive.LT, at, build.index(size)))
        near = build.apply(Primitive.MAX, build.index(0), build.apply(Primitive.MIN, at, build.index(size - 1)))
        return self.builder.let("p", near), self.builder.let("inside", valid)


def _products(elements: Elements, after: Epilogue, t: Tiling, seen: Scratch, kernel: View, target: Target) -> _Products:
    """What multiplies the tiles with weights that are packed panel by panel: pair of points by pair, each tile's channels."""
    assert isinstance(kernel.value, Node)
    weights = Source(kernel.value, DType.F32)
    pairs = Axis(t.points, t.tiles * t.channels, t.channels * t.columns)
    c = Contraction(
        (), (Axis(1), Axis(t.tiles, t.channels)), Axis(t.columns, 0, 1), (pairs, Axis(t.channels, 1, t.columns)),
        Source(seen, DType.F32), weights, DType.F32, lambda outer, rows, column: (build.index(0), *rows, column),
    )  # fmt: skip
    tile = tiles.choose(target, DType.F32, (1, t.tiles), t.columns, t.channels)
    (strides, first) = static(kernel.strides), static((kernel.offset,))[0]
    shape = (toom_cook.TAPS, toom_cook.TAPS, t.channels, t.columns)

    def at_points(array: Array) -> Array:
        flat = np.ascontiguousarray(kernel.compute(array) if kernel.compute else array).reshape(-1)[first:]
        taps = np.lib.stride_tricks.as_strided(flat, shape, [s * flat.itemsize for s in strides], writeable=False)
        return toom_cook.of_filters(t.results, taps)

    panels = packing.constant(c, tile, DType.F32, at_points, f"at points of {t.results} {first} {strides} {kernel.key}")
    return _Products(elements, after, c, tile, panels, target, t)


class _Products(OuterProduct):
    """Products of a block of tiles at every pair of points, and then the results that they stand for."""

    def __init__(
        self, elements: Elements, after: Epilogue, c: Contraction, tile: Tile, panels: Panels, target: Target, t: Tiling
    ) -> None:
        alone = replace(c, inner=c.inner[1:])
        super().__init__(elements, after, alone, tile, replace(panels, inner=alone.inner), target)
        self.fetches = ahead.pays(c, panels, target)
        self.t, self.pairs, self.whole = t, c.inner[0], panels
        self.cut = _cut(c, t, tile, target)
        self.kept: Buffer | None = None
        self.first: Expr = build.index(0)

    def write(self) -> None:
        """Loops over blocks of tiles and panels of channels, fused into one that may run in parallel."""
        extents = [self.cut.blocks, self.cut.panels]
        parallel = at_opt(self.cut.blocks * self.cut.panels) > 1 and self.t.points * self.c.flops >= PARALLEL_FLOPS
        kind = LoopKind.PARALLEL if parallel else LoopKind.SERIAL
        with self.builder.loop("t", 0, self.cut.blocks * self.cut.panels, kind=kind) as t:
            block, panel = unravel(self.builder, t, extents)
            each_panel(self.builder, self.t.columns, self.tile, panel, partial(self._block, block))

    def _block(self, block: Expr, column: Expr, vectors: int, _: build.Number) -> None:
        """A block of tiles by a panel of channels."""
        builder, split, depth = self.builder, self.cut.rows[1], self.t.channels
        width, most = vectors * self.tile.lanes, self.cut.block * split.step
        self.first = builder.let("m", build.mul(block, most))
        self.kept = builder.local("s", DType.F32, self.t.points * most * width)
        weights = builder.let("b", self.whole.base([], column, self.t.points * depth))
        with builder.loop("q", 0, self.t.points) as pair:
            left = builder.let("a", build.mul(pair, self.pairs.left))
            right = builder.let("b", build.add(weights, build.mul(pair, depth * width)))
            self.place = build.mul(pair, most * width)

            def tile(start: Expr, size: int) -> None:
                self._tile([], (build.index(0), start), (1, size), column, vectors, 0, left, right)

            self._cover(split, block if self.cut.blocks != 1 else None, tile)
        count: Expr | int = most
        if at_opt(self.cut.blocks) * most > self.t.tiles:
            count = nest.bounded(builder, build.apply(Primitive.MIN, build.index(most), build.sub(self.t.tiles, self.first)), most)
        with builder.loop("i", 0, count) as number, builder.loop("v", 0, width, self.tile.lanes) as lane:
            self._results(number, build.add(build.mul(number, width), lane), build.add(column, lane), most * width)

    def _finish(
        self, sums: list[list[Var]], rows: list[tuple[int, int]], outer: list[Expr], start: tuple[Expr, Expr],
        size: tuple[int, int], column: Expr, partial: build.Number,
    ) -> None:  # fmt: skip
        """Products wait for those at other pairs of points."""
        assert self.kept is not None
        lanes, width = self.tile.lanes, len(sums[0]) * self.tile.lanes
        base = build.add(self.place, build.mul(build.sub(start[1], self.first), width))
        for row, totals in enumerate(sums):
            for v, value in enumerate(totals):
                self.builder.store(self.kept, build.ramp(build.add(base, row * width + v * lanes), 1, lanes), value)

    def _results(self, number: Expr, place: Expr, column: Expr, plane: int) -> None:
        """One tile of results, for one vector of channels."""
        assert self.kept is not None
        t, builder, n, lanes = self.t, self.builder, self.t.seen, self.tile.lanes
        columns = []
        for j in range(n):
            values = [
                builder.let("x", build.load(self.kept, build.add(place, (i * n + j) * plane), lanes)) for i in range(n)
            ]
            columns.append(toom_cook.of_products(builder, self.target, t.results, values))
        rows = [
            toom_cook.of_products(builder, self.target, t.results, [values[i] for values in columns]) for i in range(t.results)
        ]
        batch, *corner = unravel(builder, build.add(self.first, number), (t.batch, *t.grid))
        y, x = (builder.let("p", build.mul(c, t.results)) for c in corner)
        channels = build.ramp(column, 1, lanes)
        if self.epilogue.weight > LONG_EPILOGUE:
            self._each(rows, batch, y, x, channels)
            return
        fits = [build.apply(Primitive.LE, at, build.index(size - t.results)) for at, size in zip((y, x), t.pixels, strict=True)]
        inside = builder.let("inside", build.apply(Primitive.AND, *fits))
        with nullcontext() if t.whole else builder.when(inside):
            for i, j in product(range(t.results), repeat=2):
                self.epilogue.store(self.elements, (batch, build.add(y, i), build.add(x, j), channels), rows[i][j])
        if not t.whole:
            with builder.when(build.apply(Primitive.EQ, inside, Const(False, DType.BOOL))):
                self._each(rows, batch, y, x, channels)

    def _each(self, rows: list[list[Expr]], batch: Expr, y: Expr, x: Expr, channels: Expr) -> None:
        """Those pixels of a tile that the result has, in a loop."""
        t, builder, lanes = self.t, self.builder, self.tile.lanes
        kept = builder.local("y", DType.F32, t.results**2 * lanes)
        for number, value in enumerate(value for row in rows for value in row):
            builder.store(kept, build.ramp(number * lanes, 1, lanes), value)
        height, width = (
            t.results if size % t.results == 0 else
            nest.bounded(builder, build.apply(Primitive.MIN, build.index(t.results), build.sub(size, at)), t.results)
            for at, size in zip((y, x), t.pixels, strict=True)
        )  # fmt: skip
        with builder.loop("i", 0, height) as i, builder.loop("j", 0, width) as j:
            place = build.mul(build.add(build.mul(i, t.results), j), lanes)
            at = (batch, build.add(y, i), build.add(x, j), channels)
            self.epilogue.store(self.elements, at, build.load(kept, place, lanes))


def _cut(c: Contraction, t: Tiling, tile: Tile, target: Target) -> Cut:
    """Blocks of tiles whose products at all points stay in a quarter of the second cache, and pieces for every thread."""
    split, panels = split_of(t.tiles, tile.rows[1]), panel_count(t.columns, tile)
    many = at_opt(split.count)
    block = max(1, target.l2_bytes // 4 // (t.points * split.step * tile.width * DType.F32.nbytes))
    if target.threads > 1:
        block = min(block, max(1, many // -(-PIECES * target.threads // at_opt(panels))))
    return Cut((split_of(1, 1), split), panels, 1, even(many, min(block, many)).step)
