"""Contractions as inner products: vectors run along the sum, and each result reduces its own
accumulator.

For operands that are contiguous along the summed axis (a matrix times a vector, attention scores of
one query): both are read in place, which is faster than transposing one of them unless it is read
often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from xlac.codegen.core.contraction.contraction import (
    Contraction,
    OperandSource,
    multiply_add,
    offset,
    read,
    unravel,
    zero,
)
from xlac.codegen.core.contraction.partial_tiles import PRODUCTS
from xlac.codegen.core.contraction.tiling import OpenTileSplit, TileSplit, split_of
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.summation import Pair
from xlac.codegen.cpu.gemm.inner_product_choice import _loops
from xlac.codegen.schedules.gemm import InnerProductSchedule
from xlac.ir.dims import Dim, divisor, size_hint, upper_bound, volume
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr, LoopKind, Var
from xlac_sdk.kernel_ir.primitives import Primitive


class InnerProduct:
    """Writes the kernel's body with the builder of `elements`."""

    def __init__(
        self, elements: Elements, after: Epilogue, c: Contraction, schedule: InnerProductSchedule
    ) -> None:
        self.elements, self.builder, self.after, self.c = elements, elements.builder, after, c
        self.target, self.schedule, self.lanes = elements.target, schedule, schedule.lanes
        self.rows = split_of(c.rows[1].extent, schedule.rows)
        self.columns = split_of(c.columns.extent, schedule.columns)

    def write(self) -> None:
        """One loop over outer axes, rows of the first axis and tiles."""
        c, builder = self.c, self.builder
        extents, threads = (
            _loops(c, self.schedule.rows, self.schedule.columns),
            self.schedule.threads,
        )
        kind = LoopKind.PARALLEL if threads.loops else LoopKind.SERIAL
        with builder.loop("t", 0, volume(tuple(extents)), kind=kind, grain=threads.grain) as t:
            *outer, first, down, across = unravel(builder, t, extents)

            def row(start: Expr, height: int) -> None:
                def column(begin: Expr, width: int) -> None:
                    self._tile(outer, first, start, height, begin, width)

                self._either(self.columns, across, column)

            self._either(self.rows, down, row)

    def _either(
        self, split: TileSplit | OpenTileSplit, counter: Expr, emit: Callable[[Expr, int], None]
    ) -> None:
        """Emits code for a full tile or for the last, smaller one, selected by the counter."""
        builder, start = self.builder, build.mul(counter, split.step)
        if isinstance(split, OpenTileSplit):
            self._any(split, counter, start, emit)
            return
        if not split.rest:
            emit(start, split.step)
        elif not split.full:
            emit(build.index(0), split.rest)
        else:
            with builder.when(build.apply(Primitive.LT, counter, build.index(split.full))):
                emit(start, split.step)
            with builder.when(build.apply(Primitive.EQ, counter, build.index(split.full))):
                emit(build.index(split.full * split.step), split.rest)

    def _any(
        self, split: OpenTileSplit, counter: Expr, start: Expr, emit: Callable[[Expr, int], None]
    ) -> None:
        """The same for a dynamic size of the last tile."""
        builder, full = self.builder, split.full
        with builder.when(build.apply(Primitive.LT, counter, build.lift(full))):
            emit(start, split.step)
        if not split.smaller:
            return
        with builder.when(build.apply(Primitive.EQ, counter, build.lift(full))):
            first = full * split.step
            for size in split.smaller:
                after = first + (split.extent - first) // size * size
                with builder.loop("m", first, after, size) as m:
                    emit(m, size)
                first = after

    def _tile(
        self, outer: list[Expr], first: Expr, start: Expr, height: int, column: Expr, width: int
    ) -> None:
        c, builder = self.c, self.builder
        left = offset(c.outer, outer, "left", c.left.offset)
        left = builder.let("a", build.add(left, offset(c.rows, (first, start), "left")))
        right = offset(c.outer, outer, "right", c.right.offset)
        right = builder.let("b", build.add(right, build.mul(column, c.columns.right)))
        downs = [build.add(left, c.rows[1].left * i) for i in range(height)]
        acrosses = [build.add(right, c.columns.right * j) for j in range(width)]
        sums = [
            [builder.variable("c", zero(c.accumulate, self.lanes)) for _ in acrosses] for _ in downs
        ]
        depth, lanes = c.inner[0].extent, self.lanes
        copies = self.schedule.unroll if height * width <= 8 else 1
        size = PRODUCTS * lanes
        totals = [
            [builder.let("t", t) for t in row]
            for row in self._long(sums, downs, acrosses, depth, copies, size)
        ]
        for i, row in enumerate(totals):
            for j, total in enumerate(row):
                at_rows = (first, build.add(start, i))
                self.after.store(
                    self.elements, c.place(outer, at_rows, build.add(column, j)), total
                )

    def _long(
        self,
        sums: list[list[Var]],
        downs: list[Expr],
        acrosses: list[Expr],
        depth: Dim,
        copies: int,
        size: int,
    ) -> list[list[Expr]]:
        """The complete sums: blocks of `size` products are added to compensated pairs, if there are
        several; lanes are reduced at the end.
        """
        builder = self.builder
        if upper_bound(depth) <= size or not self.c.accumulate.is_float:
            scalars = self._stretch(sums, downs, acrosses, build.index(0), depth, copies)
            return [
                [self._folded(t, s) for t, s in zip(row, rest, strict=True)]
                for row, rest in zip(sums, scalars, strict=True)
            ]
        pairs = [[Pair.of(builder, total) for total in row] for row in sums]
        full = depth // size * size
        with builder.loop("block", 0, full, size) as block:
            parts = [[builder.variable("p", zero(t.dtype, t.lanes)) for t in row] for row in sums]
            self._stretch(parts, downs, acrosses, block, size, copies)
            for pair, part in zip(chain(*pairs), chain(*parts), strict=True):
                pair.add(part)
        parts = [[builder.variable("p", zero(t.dtype, t.lanes)) for t in row] for row in sums]
        scalars = self._stretch(parts, downs, acrosses, build.lift(full), depth - full, copies)
        for pair, part in zip(chain(*pairs), chain(*parts), strict=True):
            pair.add(part)
        return [
            [self._folded(p.total(), s) for p, s in zip(row, rest, strict=True)]
            for row, rest in zip(pairs, scalars, strict=True)
        ]

    def _folded(self, total: Expr, scalar: Expr | None) -> Expr:
        value = build.fold(Primitive.ADD, total)
        return value if scalar is None else build.apply(Primitive.ADD, value, scalar)

    def _stretch(
        self,
        sums: list[list[Var]],
        downs: list[Expr],
        acrosses: list[Expr],
        first: Expr,
        depth: Dim,
        copies: int,
    ) -> Sequence[Sequence[Var | None]]:
        """Adds `depth` products from `first` on. The remainder of vectors is scalar if the target
        has no masks.
        """
        builder, c, lanes = self.builder, self.c, self.lanes
        none: list[list[Var | None]] = [[None for _ in acrosses] for _ in downs]
        if depth == 0:
            return none
        main, whole = depth // (lanes * copies) * lanes * copies, depth // lanes * lanes
        with builder.loop("k", 0, main, lanes * copies) as k:
            for u in range(copies):
                self._step(sums, downs, acrosses, build.add(build.add(first, k), u * lanes), lanes)
        if isinstance(depth, int):
            for at in range(size_hint(main), size_hint(whole), lanes):
                self._step(sums, downs, acrosses, build.add(first, at), lanes)
        elif copies > 1:
            with builder.loop("k", main, whole, lanes) as k:
                self._step(sums, downs, acrosses, build.add(first, k), lanes)
        ragged = divisor(depth) % lanes
        if ragged and self.target.masked:
            mask = builder.let(
                "mask",
                build.apply(Primitive.LT, build.ramp(0, 1, lanes), build.lift(depth - whole)),
            )
            self._step(sums, downs, acrosses, build.add(first, whole), lanes, mask)
        elif ragged:
            scalars = [
                [builder.variable("s", zero(c.accumulate, 1)) for _ in acrosses] for _ in downs
            ]
            with builder.loop("k", whole, depth) as k:
                self._step(scalars, downs, acrosses, build.add(first, k), 1)
            return scalars
        return none

    def _step(
        self,
        sums: list[list[Var]],
        downs: list[Expr],
        acrosses: list[Expr],
        k: Expr,
        lanes: int,
        mask: Expr | None = None,
    ) -> None:
        """Adds the products of `lanes` consecutive elements of the sum."""
        rights = [self._read(self.c.right, build.add(b, k), lanes, mask) for b in acrosses]
        for down, totals in zip(downs, sums, strict=True):
            value = self._read(self.c.left, build.add(down, k), lanes, mask)
            for other, total in zip(rights, totals, strict=True):
                self.builder.assign(total, multiply_add(self.target, value, other, total))

    def _read(self, source: OperandSource, where: Expr, lanes: int, mask: Expr | None) -> Expr:
        return self.builder.let(
            "x", read(self.elements, source, where, lanes, self.c.accumulate, mask)
        )
