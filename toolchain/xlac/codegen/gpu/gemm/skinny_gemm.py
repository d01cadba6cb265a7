"""Products of a few rows with many columns, which are bound by reading the large operand.

The threads of a block share the sum: each sums its steps for some columns, threads of a warp
combine theirs by shuffles, warps through SHARED memory. The large operand is read once, sixteen
bytes at a time where the schedule reads along the direction in which it is contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from xlac.codegen.core.contraction.contraction import multiply_add, unravel, zero
from xlac.codegen.core.contraction.matrix_operand import Counters, MatrixOperand, apart, offset
from xlac.codegen.core.contraction.partial_tiles import PRODUCTS
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.summation import Pair
from xlac.codegen.gpu.core.grid import GridThread, grid
from xlac.codegen.gpu.core.shared_staging import all_of
from xlac.codegen.gpu.gemm.epilogue_store import EpilogueStore
from xlac.codegen.gpu.gemm.matrix_product import MatrixProduct
from xlac.codegen.gpu.gemm.operand_load import read
from xlac.codegen.gpu.gemm.skinny_tile import columns, each, sides, steps_at_once
from xlac.codegen.schedules.gpu.gemm import SkinnyGemmSchedule
from xlac.ir.dims import ceil_div, divisor, upper_bound, volume
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Buffer, Exchange, Expr, Shuffle, Var
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive


class SkinnyGemm:
    """Writes the kernel's body with the builder of `elements`."""

    def __init__(
        self,
        elements: Elements,
        after: Epilogue,
        p: MatrixProduct,
        how: SkinnyGemmSchedule,
        target: Target,
    ) -> None:
        self.elements, self.builder, self.after, self.how, self.target = (
            elements,
            elements.builder,
            after,
            how,
            target,
        )
        self.wide, self.thin = sides(p)
        self.p = p if self.wide is p.columns else p.turned()
        # lanes of one vector of sums
        self.part = how.vector

    def write(self) -> None:
        """A block for every few columns of every few rows of each product in the batch."""
        p, how = self.p, self.how
        extents = [
            *p.batch,
            ceil_div(self.thin.size, how.few),
            ceil_div(self.wide.size, columns(how)),
        ]
        with grid(
            self.builder, self.target, volume(tuple(extents)), how.warps * self.target.warp
        ) as g:
            *batch, down, across = unravel(self.builder, g.block, extents)
            first = build.mul(down, how.few), build.mul(across, columns(how))
            self._thread(g, batch, first)

    def _thread(self, g: GridThread, batch: Counters, first: tuple[Expr, Expr]) -> None:
        builder, how, warp = self.builder, self.how, self.target.warp
        lane = builder.let("lane", build.mod(g.thread, warp))
        column = builder.let("column", build.mul(build.mod(lane, how.across), each(how)))
        slot = builder.let(
            "slot",
            build.add(
                build.mul(build.div(g.thread, warp), warp // how.across),
                build.div(lane, how.across),
            ),
        )
        sums = self._sums(batch, first, column, slot)
        distance = warp // 2
        while distance >= how.across:
            sums = [[self._combined(value, distance) for value in row] for row in sums]
            distance //= 2
        kept = g.shared("kept", self.p.accumulate, how.warps * how.few * columns(how))
        with builder.when(build.apply(P.LT, lane, build.index(how.across))):
            start = build.add(build.mul(build.div(g.thread, warp), how.few * columns(how)), column)
            for i, row in enumerate(sums):
                for j, value in enumerate(row):
                    builder.store(kept, build.add(start, i * columns(how) + j * value.lanes), value)
        builder.barrier()
        self._finish(g, batch, first, kept)

    def _combined(self, value: Expr, distance: int) -> Expr:
        """A sum plus that of the thread `distance` lanes away, for each lane of vectors."""
        return self.builder.let("sum", build.apply(P.ADD, value, Exchange(value, distance)))

    # ---- one thread's part of the sum --------------------------------------------------------

    def _sums(
        self, batch: Counters, first: tuple[Expr, Expr], column: Expr, slot: Expr
    ) -> list[list[Expr]]:
        """For each row, vectors of sums for the thread's columns; or one sum, if vectors are along
        the sum.
        """
        p, how, builder = self.p, self.how, self.builder
        vectors = how.lanes // self.part if not how.along_depth else 1
        totals = [
            [builder.variable("sum", zero(p.accumulate, self.part)) for _ in range(vectors)]
            for _ in range(how.few)
        ]
        rows = [
            self._base(self.thin, batch, build.add(first[0], i), how.few) for i in range(how.few)
        ]
        base, inside = self._base(self.wide, batch, build.add(first[1], column), columns(how))
        step = how.lanes if how.along_depth else 1
        turn, ahead = steps_at_once(how, self.target.warp), how.ahead
        start = build.mul(slot, step)
        size = turn * ahead * max(1, PRODUCTS // (ahead * step))
        if upper_bound(p.depth) <= size or not p.accumulate.is_float:
            self._products(totals, rows, base, inside, start, build.lift(p.depth), turn, ahead)
            return self._folded(totals)
        pairs = [[Pair.of(builder, total) for total in row] for row in totals]
        with builder.loop("block", start, p.depth, size) as block:
            parts = [
                [builder.variable("part", zero(p.accumulate, self.part)) for _ in row]
                for row in totals
            ]
            end = builder.let(
                "end", build.apply(P.MIN, build.add(block, size), build.lift(p.depth))
            )
            self._products(parts, rows, base, inside, block, end, turn, ahead)
            for pair, part in zip(chain(*pairs), chain(*parts), strict=True):
                pair.add(part)
        return self._folded([[pair.total() for pair in row] for row in pairs])

    def _products(
        self,
        totals: Sequence[Sequence[Var]],
        rows: Sequence[tuple[Expr, list[Expr]]],
        base: Expr,
        inside: list[Expr],
        first: Expr,
        end: Expr,
        turn: int,
        ahead: int,
    ) -> None:
        """Adds a thread's products from `first` on, before the end."""
        p, how, builder = self.p, self.how, self.builder
        with builder.loop("k", first, end, turn * ahead) as k:
            steps = [builder.let("at", build.add(k, turn * u)) for u in range(ahead)]
            there = [
                [*inside, build.apply(P.LT, at, build.lift(p.depth))] if u else inside
                for u, at in enumerate(steps)
            ]
            wide = [
                self._read(self.wide, base, at, how.lanes, ok, how.along_depth)
                for at, ok in zip(steps, there, strict=True)
            ]
            for u, at in enumerate(steps):
                beyond = [build.apply(P.LT, at, build.lift(p.depth))] if u else []
                for (start, ok), sums in zip(rows, totals, strict=True):
                    self._add(sums, start, at, [*ok, *beyond], wide[u])

    def _folded(self, totals: Sequence[Sequence[Expr]]) -> list[list[Expr]]:
        if not self.how.along_depth:
            return [list(sums) for sums in totals]
        return [[self.builder.let("sum", build.fold(P.ADD, sums[0]))] for sums in totals]

    def _add(
        self, sums: Sequence[Var], start: Expr, at: Expr, there: list[Expr], wide: list[Expr]
    ) -> None:
        """The products of one row in one step."""
        if self.how.along_depth:
            (total,) = sums
            for left, right in zip(
                self._read(self.thin, start, at, self.how.lanes, there, True), wide, strict=True
            ):
                self.builder.assign(total, multiply_add(self.target, left, right, total))
            return
        (left,) = self._read(self.thin, start, at, 1, there, True)
        one = self.builder.let("one", build.splat(left, self.part))
        for right, total in zip(wide, sums, strict=True):
            self.builder.assign(total, multiply_add(self.target, one, right, total))

    def _base(
        self, side: MatrixOperand, batch: Counters, position: Expr, span: int
    ) -> tuple[Expr, list[Expr]]:
        """The offset of a position along a side in its operand, and the conditions for it to be
        inside.
        """
        builder = self.builder
        position = builder.let("at", position)
        where = builder.let(
            "from", side.moved(side.start(batch), apart(builder, position, side.extents))
        )
        if divisor(side.size) % span == 0:
            return where, []
        return where, [builder.let("inside", build.apply(P.LT, position, build.lift(side.size)))]

    def _read(
        self,
        side: MatrixOperand,
        base: Expr,
        step: Expr,
        lanes: int,
        there: list[Expr],
        along_depth: bool,
    ) -> list[Expr]:
        """Elements at a step of the sum, as vectors along the sum or along columns."""
        builder, dtype = self.builder, self.p.accumulate
        mask = all_of(there) if there else None
        if along_depth and side.width(lanes, along_depth=True, depth=self.p.depths) < lanes:
            steps = build.ramp(step, 1, lanes)
            where = offset(base, apart(builder, steps, self.p.depths), side.depth)
            value = read(self.elements, side.source, where, lanes, mask)
        else:
            where = offset(base, apart(builder, step, self.p.depths), side.depth)
            value = read(self.elements, side.source, where, lanes, mask)
        value = builder.let("x", value)
        if lanes <= self.part:
            return [builder.let("x", build.cast(value, dtype))]
        picks = [tuple(range(at, at + self.part)) for at in range(0, lanes, self.part)]
        return [builder.let("x", build.cast(Shuffle((value,), pick), dtype)) for pick in picks]

    # ---- results -----------------------------------------------------------------------------

    def _finish(
        self, g: GridThread, batch: Counters, first: tuple[Expr, Expr], kept: Buffer
    ) -> None:
        """Adds the warps' sums and stores the results, a vector for each of the first threads."""
        builder, how, p = self.builder, self.how, self.p
        lanes = min(self.part, each(how))
        across, threads = columns(how) // lanes, how.warps * self.target.warp
        tall, wide = (
            divisor(self.thin.size) % how.few != 0,
            divisor(self.wide.size) % columns(how) != 0,
        )
        results = EpilogueStore(self.elements, self.after, p, batch, tall, wide)
        for begin in range(0, how.few * across, threads):
            number = build.add(g.thread, begin)
            with builder.when(build.apply(P.LT, number, build.index(how.few * across))):
                number = builder.let("number", number)
                row, column = build.div(number, across), build.mul(build.mod(number, across), lanes)
                at = builder.let("at", build.add(build.mul(row, columns(how)), column))
                total = builder.let("total", build.load(kept, at, lanes))
                for other in range(1, how.warps):
                    more = build.load(kept, build.add(at, other * how.few * columns(how)), lanes)
                    total = builder.let("total", build.apply(P.ADD, total, more))
                down, right = (
                    builder.let("row", build.add(first[0], row)),
                    builder.let("column", build.add(first[1], column)),
                )
                results.store(lambda _, down=down: down, lambda _, right=right: right, [[total]])  # type: ignore[misc]
