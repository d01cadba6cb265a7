"""The first kernel of a Winograd convolution: the input transform. See `winograd.py`."""

from __future__ import annotations

from itertools import product

from xlac.codegen.core import loop_nest
from xlac.codegen.core.addressing import linear
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.lowered_group import KernelLaunch, Scratch
from xlac.codegen.core.operands import OperandView
from xlac.codegen.cpu.conv.winograd import toom_cook
from xlac.codegen.cpu.conv.winograd.accuracy_guard import Extremes, Guard
from xlac.codegen.cpu.conv.winograd.choose import tile_loops
from xlac.codegen.cpu.conv.winograd.tiling import Tiling, plane
from xlac.codegen.schedules.conv import WinogradSchedule
from xlac.fusion.group import Group
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Const, Expr, Work
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target


def launch(
    group: Group,
    target: Target,
    name: str,
    t: Tiling,
    x: OperandView,
    guard: Guard | None,
    schedule: WinogradSchedule,
) -> tuple[KernelLaunch, Scratch]:
    """The kernel, and the scratch memory of transformed tiles: for each point, tiles
    by channels.
    """
    seen = Scratch(DType.F32, t.points * plane(t.tiles * t.channels), "tiles")
    elements = Elements(Builder(), group, target)
    Pixels(elements, t, x, seen, guard, schedule).write()
    size = t.points * t.tiles * t.channels
    work = Work(4 * size, (t.batch * t.x[0] * t.x[1] * t.channels + size) * DType.F32.nbytes)
    return elements.launch(
        name, work, f"brings what each {t.results}x{t.results} pixels see to points"
    ), seen


class Pixels:
    """Transforms every input tile, one vector of channels at a time."""

    def __init__(
        self,
        elements: Elements,
        t: Tiling,
        x: OperandView,
        to: Scratch,
        guard: Guard | None,
        schedule: WinogradSchedule,
    ) -> None:
        self.schedule, self.lanes = schedule, schedule.tile.lanes
        self.elements, self.builder, self.t, self.x, self.guard, self.target = (
            elements,
            elements.builder,
            t,
            x,
            guard,
            elements.target,
        )
        self.source, self.to = (
            elements.parameter(x.value, Access.READ),
            elements.parameter(to, Access.WRITE),
        )

    def write(self) -> None:
        """Loops over batches and tiles, in parallel."""
        t, builder = self.t, self.builder
        loops = tile_loops(t)
        with loop_nest.nest(builder, loops, self.schedule.input_threads) as counters:
            number, down, across = (counters[run] for run in loops)
            tile = linear((number, down, across), (t.grid[0] * t.grid[1], t.grid[1], 1))
            base = builder.let("a", build.add(build.mul(number, self.x.strides[0]), self.x.offset))
            first = tuple(
                builder.let("p", build.sub(build.mul(c, t.results), low))
                for c, low in zip((down, across), t.low, strict=True)
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
        inside = None
        for at, size, low, grid in zip(first, self.t.x, self.t.low, self.t.grid, strict=True):
            last = build.sub(size, self.t.seen)
            checks = [build.apply(Primitive.LE, build.index(0), at)] if low > 0 else []
            if (grid - 1) * self.t.results - low + self.t.seen > size:
                checks.append(build.apply(Primitive.LE, at, last))
            for check in checks:
                inside = check if inside is None else build.apply(Primitive.AND, inside, check)
        return inside

    def _tile(self, base: Expr, first: tuple[Expr, ...], tile: Expr, edge: bool) -> None:
        """One tile. At an edge of x, pixels outside are 0."""
        t, builder, n, lanes = self.t, self.builder, self.t.seen, self.lanes
        lines = [
            [
                line(builder, build.add(at, k), size) if edge else (build.add(at, k), None)
                for k in range(n)
            ]
            for at, size in zip(first, t.x, strict=True)
        ]
        extremes = Extremes(builder, t, lanes) if self.guard else None
        with builder.loop("c", 0, t.channels, lanes) as channel:
            here = build.add(base, channel)
            pixels = {
                (i, j): pixel(builder, self.source, self.x, here, down, across, lanes)
                for (j, across), (i, down) in product(enumerate(lines[1]), enumerate(lines[0]))
            }
            if extremes:
                extremes.note(pixels)
            columns = [
                toom_cook.of_values(
                    builder, self.target, t.results, [pixels[i, j] for i in range(n)]
                )
                for j in range(n)
            ]
            begin = builder.let("v", build.add(build.mul(tile, t.channels), channel))
            for i in range(n):
                row = toom_cook.of_values(
                    builder, self.target, t.results, [column[i] for column in columns]
                )
                for j, value in enumerate(row):
                    place = build.add(begin, (i * n + j) * plane(t.tiles * t.channels))
                    builder.store(self.to, build.ramp(place, 1, lanes), value)
        if extremes and self.guard:
            self.guard.store(self.elements, tile, extremes)


def line(builder: Builder, at: Expr, size: int) -> tuple[Expr, Expr | None]:
    """The position of a row or column of pixels, clamped to x, and whether it was inside."""
    valid = build.apply(
        Primitive.AND,
        build.apply(Primitive.LE, build.index(0), at),
        build.apply(Primitive.LT, at, build.index(size)),
    )
    near = build.apply(
        Primitive.MAX, build.index(0), build.apply(Primitive.MIN, at, build.index(size - 1))
    )
    return builder.let("p", near), builder.let("inside", valid)


def pixel(
    builder: Builder,
    source: Buffer,
    x: OperandView,
    base: Expr,
    down: tuple[Expr, Expr | None],
    across: tuple[Expr, Expr | None],
    lanes: int,
) -> Expr:
    """A vector of channels of one pixel, 0 outside x."""
    at = build.add(
        base, build.add(build.mul(down[0], x.strides[1]), build.mul(across[0], x.strides[2]))
    )
    value = build.load(source, at, lanes)
    if down[1] is not None and across[1] is not None:
        valid = build.splat(build.apply(Primitive.AND, down[1], across[1]), lanes)
        value = build.select(valid, value, Const(0.0, DType.F32, lanes))
    return builder.let("x", value)
