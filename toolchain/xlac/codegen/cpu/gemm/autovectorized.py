"""Contractions for compilers that vectorize counted loops themselves: rows of sums in memory,
columns innermost.

Sums of a few rows by a panel of columns are kept in a local array. An iteration of the summed loop
takes a few steps at once, holds their elements of the left operand in registers and iterates over
the panel: a loop of static length over consecutive elements, which C compilers vectorize for any
machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xlac.codegen.core.contraction.contraction import (
    Axis,
    Contraction,
    multiply_add,
    offset,
    read,
    unravel,
    zero,
)
from xlac.codegen.core.contraction.packing import Panels
from xlac.codegen.core.contraction.partial_tiles import PRODUCTS, WHOLE, Waiting
from xlac.codegen.core.contraction.tiling import RegisterTile, TileSplit, even_split
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.operands import OperandView
from xlac.codegen.core.strip_mining import UNROLLED
from xlac.codegen.core.summation import blocks
from xlac.codegen.schedules.gemm import AutovectorizedSchedule
from xlac.codegen.schedules.schedule import Misfit
from xlac.ir.dims import Dim, upper_bound, volume
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Buffer, Expr
from xlac_sdk.target import Target

WIDEST = 128  # columns of a panel
LEAST = 8  # columns from which vectors pay
ROWS = 2  # rows that are summed at once
STEPS = 4  # steps of the sum that are taken at once


def pays(c: Contraction, target: Target) -> bool:
    """Whether the target's compiler vectorizes loops, and the right operand's layout allows it."""
    known = all(isinstance(a.extent, int) for a in (c.columns, *c.inner))
    readable = c.right.constant or c.columns.right == 1
    return target.vectorizes and not target.size and known and c.columns.usual >= LEAST and readable


def chosen(c: Contraction, swap: bool) -> AutovectorizedSchedule:
    """The schedule of a contraction for which this pays."""
    width = even_split(c.columns.usual, WIDEST).step
    return AutovectorizedSchedule(
        swap, width, ROWS, STEPS, "constant" if c.right.constant else "direct"
    )


def check(schedule: AutovectorizedSchedule, c: Contraction, view: OperandView) -> None:
    """Raises Misfit for a schedule that a contraction cannot have."""
    if not all(isinstance(a.extent, int) for a in (c.columns, *c.inner)):
        raise Misfit(("template",), "the number of its columns or products is not static")
    if schedule.right == "constant" and not c.right.constant:
        raise Misfit(("right",), "it is known only when the program runs")
    if schedule.right == "direct" and (c.columns.right != 1 or view.folded is not None):
        raise Misfit(("right",), "its columns are not contiguous")
    if schedule.width > max(1, c.columns.usual):
        raise Misfit(("width",), f"there are {c.columns.usual} columns")
    if schedule.rows > UNROLLED or schedule.steps > UNROLLED:
        raise Misfit(("rows",), f"rows and steps are at most {UNROLLED} each")


def tile(schedule: AutovectorizedSchedule) -> RegisterTile:
    """A panel of columns as a register tile of single elements."""
    return RegisterTile((1, 1), schedule.width, 1)


class AutovectorizedGemm:
    """Writes the kernel's body with the builder of `elements`."""

    def __init__(
        self,
        elements: Elements,
        epilogue: Epilogue,
        c: Contraction,
        panels: Panels,
        schedule: AutovectorizedSchedule,
    ) -> None:
        self.elements, self.builder, self.epilogue = elements, elements.builder, epilogue
        self.c, self.right, self.target, self.schedule = c, panels, elements.target, schedule
        self.columns = TileSplit(c.columns.usual, schedule.width)
        # the row axis along which several rows are taken at once
        self.axis = 1 if c.rows[1].usual > 1 else 0

    def write(self) -> None:
        """Loops over outer axes, panels of columns, rows."""
        c, builder = self.c, self.builder
        with builder.loop("t", 0, volume(tuple(a.extent for a in c.outer))) as t:
            outer = unravel(builder, t, [a.extent for a in c.outer])
            with builder.loop("p", 0, self.columns.full) as p:
                self._panel(outer, build.mul(p, self.columns.step), self.columns.step)
            if self.columns.rest:
                self._panel(
                    outer, build.index(self.columns.full * self.columns.step), self.columns.rest
                )

    def _panel(self, outer: list[Expr], column: Expr, width: int) -> None:
        c, builder = self.c, self.builder
        left = offset(c.outer, outer, "left", c.left.offset)
        right = builder.let("b", self.right.base(outer, column, c.depth))
        rows = c.rows[self.axis].extent
        several = max(1, min(self.schedule.rows, rows)) if isinstance(rows, int) else 1

        def sums(first: Expr, second: Expr, count: int) -> None:
            start = (first, second) if self.axis else (second, first)
            base = builder.let("a", build.add(left, offset(c.rows, start, "left")))
            kept = self._sum(count, width, base, right)
            self._finish(kept, count, width, outer, start, column)

        with builder.loop("m", 0, c.rows[1 - self.axis].extent) as first:
            full = rows // several * several
            with builder.loop("n", 0, full, several) as second:
                sums(first, second, several)
            if isinstance(rows, int) and isinstance(full, int) and full < rows:
                sums(first, build.index(full), rows - full)

    def _sum(self, count: int, width: int, left: Expr, right: Expr) -> Buffer:
        """The sums of all products: in one loop nest, or in blocks that are added to sums in
        memory.
        """
        builder, c, strides = self.builder, self.c, self.right.strides(width)
        cut = (
            blocks([a.extent for a in c.inner], PRODUCTS, WHOLE) if c.accumulate.is_float else None
        )
        if cut is None:
            kept = self._zeros(count, width)
            self._products(kept, c.inner, count, width, left, right, strides)
            return kept
        size, at = count * width, cut.loop
        around = volume(tuple(a.extent for a in c.inner[:at]))
        waiting = Waiting.of(
            builder, c.accumulate, size, 1, upper_bound(around) * -(-c.inner[at].usual // cut.turns)
        )

        def block(a: Expr, b: Expr, turns: int) -> None:
            part = self._zeros(count, width)
            self._products(
                part,
                (replace(c.inner[at], extent=turns), *c.inner[at + 1 :]),
                count,
                width,
                a,
                b,
                strides[at:],
            )
            with builder.loop("z", 0, size) as z:
                waiting.add(z, build.load(part, z))

        def level(depth: int, a: Expr, b: Expr) -> None:
            axis, stride, turns = c.inner[depth], strides[depth], cut.turns if depth == at else 1
            full = axis.usual // turns
            with builder.loop("block", 0, full) as k:
                here = builder.let("a", build.add(a, build.mul(k, axis.left * turns)))
                there = builder.let("b", build.add(b, build.mul(k, stride * turns)))
                if depth < at:
                    level(depth + 1, here, there)
                else:
                    block(here, there, turns)
                    waiting.group(build.index(0), size, k)
            if full * turns < axis.usual:
                done = full * turns
                block(
                    build.add(a, axis.left * done), build.add(b, stride * done), axis.usual - done
                )
            if depth == at > 0:
                waiting.join(build.index(0), size)

        level(0, left, right)
        return waiting.finish(size)

    def _zeros(self, count: int, width: int) -> Buffer:
        kept = self.builder.local("s", self.c.accumulate, count * width)
        with self.builder.loop("z", 0, count * width) as z:
            self.builder.store(kept, z, zero(self.c.accumulate, 1))
        return kept

    def _products(
        self,
        kept: Buffer,
        inner: Sequence[Axis],
        count: int,
        width: int,
        left: Expr,
        right: Expr,
        strides: Sequence[Dim],
    ) -> None:
        """Adds every product to the sums: loops over the summed axes, with the innermost unrolled
        by several steps.
        """
        builder = self.builder

        def level(depth: int, a: Expr, b: Expr) -> None:
            axis, stride = inner[depth], strides[depth]
            last = depth == len(inner) - 1
            steps = min(self.schedule.steps, max(1, axis.usual)) if last else 1
            main = axis.usual // steps * steps
            with builder.loop("k", 0, main, steps) as k:
                here = builder.let("a", build.add(a, build.mul(k, axis.left)))
                there = builder.let("b", build.add(b, build.mul(k, stride)))
                if last:
                    self._pass(kept, count, width, here, there, steps, axis.left, stride)
                else:
                    level(depth + 1, here, there)
            if main < axis.usual:
                here, there = build.add(a, axis.left * main), build.add(b, stride * main)
                self._pass(kept, count, width, here, there, axis.usual - main, axis.left, stride)

        level(0, left, right)

    def _pass(
        self,
        kept: Buffer,
        count: int,
        width: int,
        left: Expr,
        right: Expr,
        steps: int,
        step: Dim,
        stride: Dim,
    ) -> None:
        """Several steps of the sum, for all rows, over the columns of the panel."""
        builder, c = self.builder, self.c
        row = c.rows[self.axis].left

        def held(r: int, u: int) -> Expr:
            return builder.let(
                "x",
                read(self.elements, c.left, build.add(left, row * r + step * u), 1, c.accumulate),
            )

        values = [[held(r, u) for u in range(steps)] for r in range(count)]
        with builder.loop("j", 0, width) as j:
            weights = [
                builder.let(
                    "w",
                    read(
                        self.elements,
                        self.right.source,
                        build.add(build.add(right, stride * u), j),
                        1,
                        c.accumulate,
                    ),
                )
                for u in range(steps)
            ]
            for r in range(count):
                place = build.add(j, r * width)
                total = builder.let("c", build.load(kept, place))
                for value, weight in zip(values[r], weights, strict=True):
                    total = builder.let("c", multiply_add(self.target, value, weight, total))
                builder.store(kept, place, total)

    def _finish(
        self,
        kept: Buffer,
        count: int,
        width: int,
        outer: list[Expr],
        start: tuple[Expr, Expr],
        column: Expr,
    ) -> None:
        """The epilogue, over the columns of the panel for each row."""
        builder = self.builder
        for r in range(count):
            rows = (
                (start[0], build.add(start[1], r))
                if self.axis
                else (build.add(start[0], r), start[1])
            )
            with builder.loop("j", 0, width) as j:
                at = self.c.place(outer, rows, build.add(column, j))
                self.epilogue.store(self.elements, at, build.load(kept, build.add(j, r * width)))
