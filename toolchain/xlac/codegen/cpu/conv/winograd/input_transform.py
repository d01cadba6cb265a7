"""The first kernel of a Winograd convolution: the input transform. See `winograd.py`. Its gradient
for the weights transforms the input and the cotangents (`weight_gradient.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product

from xlac.codegen.core import loop_nest
from xlac.codegen.core.addressing import linear
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.lowered_group import KernelLaunch, Scratch
from xlac.codegen.core.operands import OperandView
from xlac.codegen.cpu.conv.winograd import toom_cook
from xlac.codegen.cpu.conv.winograd.accuracy_guard import Extremes, Guard
from xlac.codegen.cpu.conv.winograd.tiling import TiledMap, Tiling, plane
from xlac.codegen.schedules.conv import WinogradSchedule
from xlac.codegen.schedules.schedule import Threads
from xlac.fusion.group import Group
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Const, Expr, Work
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

ToPoints = Callable[[Sequence[Expr]], list[Expr]]
"""The transform of the values along one axis of a tile."""


def launch(
    group: Group,
    target: Target,
    name: str,
    t: Tiling,
    x: OperandView,
    seen: Scratch,
    guard: Guard | None,
    schedule: WinogradSchedule,
) -> KernelLaunch:
    """The kernel, which writes transformed tiles to `seen`: for each point, tiles by channels."""
    elements = Elements(Builder(), group, target)
    to_points = partial(toom_cook.of_values, elements.builder, target, t.results)
    given = (elements, t.input, x, seen, to_points, schedule.tile.lanes)
    transform = GuardedTransform(*given, t, guard) if guard else TileTransform(*given)
    transform.write(schedule.input_threads)
    size = t.points * t.tiles * t.channels
    work = Work(4 * size, (t.batch * t.x[0] * t.x[1] * t.channels + size) * DType.F32.nbytes)
    note = f"brings what each {t.results}x{t.results} pixels see to points"
    return elements.launch(name, work, note)


class TileTransform:
    """Transforms every tile of a map, one vector of channels at a time."""

    def __init__(
        self,
        elements: Elements,
        map: TiledMap,
        x: OperandView,
        to: Scratch,
        to_points: ToPoints,
        lanes: int,
    ) -> None:
        self.elements, self.builder, self.map, self.x = elements, elements.builder, map, x
        self.to_points, self.lanes = to_points, lanes
        self.first: Expr = build.index(0)  # channel of the block
        self.source = elements.parameter(x.value, Access.READ)
        self.to = elements.parameter(to, Access.WRITE)

    def write(self, threads: Threads) -> None:
        """Loops over blocks of channels, batches and tiles, in parallel."""
        map, builder = self.map, self.builder
        loops = [run for run in map.loops if run.extent != 1 or run.axes != (0,)]
        with loop_nest.nest(builder, loops, threads) as counters:
            number, down, across = (counters[run] for run in loops[-3:])
            self.first = build.index(0)
            if len(loops) > 3:
                self.first = builder.let("c", build.mul(counters[loops[0]], map.block))
            tile = linear((number, down, across), (map.grid[0] * map.grid[1], map.grid[1], 1))
            image = build.add(number, map.first)
            base = builder.let("a", build.add(build.mul(image, self.x.strides[0]), self.x.offset))
            first = tuple(
                builder.let("p", build.sub(build.mul(c, map.step), low))
                for c, low in zip((down, across), map.low, strict=True)
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
        """Whether all pixels of a tile are inside x; None if always."""
        inside, map = None, self.map
        for at, size, low, grid in zip(first, map.size, map.low, map.grid, strict=True):
            last = build.sub(size, map.seen)
            checks = [build.apply(Primitive.LE, build.index(0), at)] if low > 0 else []
            if (grid - 1) * map.step - low + map.seen > size:
                checks.append(build.apply(Primitive.LE, at, last))
            for check in checks:
                inside = check if inside is None else build.apply(Primitive.AND, inside, check)
        return inside

    def _tile(self, base: Expr, first: tuple[Expr, ...], tile: Expr, edge: bool) -> None:
        """One tile. At an edge of x, pixels outside are 0."""
        map, builder, n, lanes = self.map, self.builder, self.map.seen, self.lanes
        lines = [
            [
                line(builder, build.add(at, k), size) if edge else (build.add(at, k), None)
                for k in range(n)
            ]
            for at, size in zip(first, map.size, strict=True)
        ]
        across, down = enumerate(lines[1]), enumerate(lines[0])
        places = {  # known before the loop, which LLVM would not move them out of
            (i, j): (row[0], column[0], met(builder, row[1], column[1]))
            for (j, column), (i, row) in product(across, down)
        }
        self._begin()
        with builder.loop("c", 0, map.block, lanes) as channel:
            here = build.add(base, build.add(self.first, channel))
            pixels = {
                at: pixel(builder, self.source, self.x, here, place, lanes)
                for at, place in places.items()
            }
            self._note(pixels)
            columns = [self.to_points([pixels[i, j] for i in range(n)]) for j in range(n)]
            begin = builder.let("v", linear((self.first, tile, channel), (map.tiles, map.block, 1)))
            points = len(columns[0])
            for i in range(points):
                row = self.to_points([column[i] for column in columns])
                for j, value in enumerate(row):
                    place = build.add(begin, (i * points + j) * plane(map.point_size))
                    builder.store(self.to, build.ramp(place, 1, lanes), value)
        self._end(tile)

    def _begin(self) -> None:
        """Is called before the pixels of a tile are read."""

    def _note(self, pixels: Mapping[tuple[int, int], Expr]) -> None:
        """Is called with a vector of channels of every pixel."""

    def _end(self, tile: Expr) -> None:
        """Is called after the pixels of a tile were read."""


class GuardedTransform(TileTransform):
    """The same, with the largest pixel of each tile for the accuracy guard."""

    def __init__(
        self,
        elements: Elements,
        map: TiledMap,
        x: OperandView,
        to: Scratch,
        to_points: ToPoints,
        lanes: int,
        t: Tiling,
        guard: Guard,
    ) -> None:
        super().__init__(elements, map, x, to, to_points, lanes)
        self.t, self.guard = t, guard

    def _begin(self) -> None:
        self.extremes = Extremes(self.builder, self.t, self.lanes)

    def _note(self, pixels: Mapping[tuple[int, int], Expr]) -> None:
        self.extremes.note(pixels)

    def _end(self, tile: Expr) -> None:
        self.guard.store(self.elements, tile, self.extremes)


def line(builder: Builder, at: Expr, size: int) -> tuple[Expr, Expr | None]:
    """The position of a row or column of pixels, clamped to x, and whether it was inside; None if
    its bounds say that it always is.
    """
    low, high = build.bounds(at)
    near, inside = at, None
    if high is None or high >= size:
        near = build.apply(Primitive.MIN, at, build.index(size - 1))
        inside = build.apply(Primitive.LT, at, build.index(size))
    if low is None or low < 0:
        near = build.apply(Primitive.MAX, build.index(0), near)
        after = build.apply(Primitive.LE, build.index(0), at)
        inside = after if inside is None else build.apply(Primitive.AND, after, inside)
    return builder.let("p", near), None if inside is None else builder.let("inside", inside)


def met(builder: Builder, down: Expr | None, across: Expr | None) -> Expr | None:
    """Whether a pixel is in x, by its row and its column."""
    if down is None or across is None:
        return across if down is None else down
    return builder.let("inside", build.apply(Primitive.AND, down, across))


def pixel(
    builder: Builder,
    source: Buffer,
    x: OperandView,
    base: Expr,
    place: tuple[Expr, Expr, Expr | None],
    lanes: int,
) -> Expr:
    """A vector of channels of the pixel at a row and column, 0 where it is not in x."""
    row, column, inside = place
    at = build.add(base, build.add(build.mul(row, x.strides[1]), build.mul(column, x.strides[2])))
    value = build.load(source, at, lanes)
    if inside is not None:
        value = build.select(build.splat(inside, lanes), value, Const(0.0, DType.F32, lanes))
    return builder.let("x", value)
