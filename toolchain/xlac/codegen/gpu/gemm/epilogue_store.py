"""Stores of a matrix product's block: the epilogue on each thread's vectors of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Protocol

from xlac.codegen.core.contraction.matrix_operand import Counters
from xlac.codegen.core.elements import Elements
from xlac.codegen.gpu.gemm.matrix_product import MatrixProduct
from xlac.ir.dims import divisor
from xlac.ir.op import Index
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr, LoopKind, Shuffle
from xlac_sdk.kernel_ir.primitives import Primitive

LONG = 12  # operations for each element above which the epilogue is a loop instead of unrolled


Places = Callable[[build.Number], Expr]
"""The row, or first column, of the vector with a number."""


class Stores(Protocol):
    """The computation on a result, before it is stored."""

    @property
    def weight(self) -> int:
        """Operations for each element."""

    def store(self, elements: Elements, at: Index, value: Expr) -> None:
        """Stores the outputs for a result, or for a vector of results, given in the accumulator
        type.
        """


class EpilogueStore:
    """Stores results of one position of the batch; `tall` and `wide` if tiles may extend past the
    last row and column. With `loop` the epilogue is a loop instead of unrolled.
    """

    def __init__(
        self,
        elements: Elements,
        after: Stores,
        p: MatrixProduct,
        batch: Counters,
        tall: bool,
        wide: bool,
        loop: bool = False,
    ) -> None:
        self.elements, self.builder, self.after, self.p, self.batch = (
            elements,
            elements.builder,
            after,
            p,
            batch,
        )
        self.tall, self.wide, self.loop = tall, wide, loop

    def store(self, row: Places, column: Places, values: Sequence[Sequence[Expr]]) -> None:
        """`values[i][j]` is the vector of results in row i from column j on."""
        across = len(values[0])
        if self.loop:
            self._loop(row, column, values)
            return
        for i, totals in enumerate(values):
            self._row(row(i), [column(j) for j in range(across)], totals)

    def _loop(self, row: Places, column: Places, values: Sequence[Sequence[Expr]]) -> None:
        """A long epilogue, emitted once: a loop over results in a local array."""
        builder, lanes, across = self.builder, values[0][0].lanes, len(values[0])
        kept = builder.local("kept", self.p.accumulate, len(values) * across * lanes)
        for number, total in enumerate(total for totals in values for total in totals):
            builder.store(kept, number * lanes, total)
        with (
            builder.loop("i", 0, len(values), kind=LoopKind.UNROLLED) as i,
            builder.loop("j", 0, across, kind=LoopKind.UNROLLED) as j,
        ):
            at = build.mul(build.add(build.mul(i, across), j), lanes)
            self._row(
                builder.let("row", row(i)),
                [builder.let("column", column(j))],
                [builder.let("total", build.load(kept, at, lanes))],
            )

    def _row(self, row: Expr, columns: Sequence[Expr], totals: Sequence[Expr]) -> None:
        inside = build.apply(Primitive.LT, row, build.lift(self.p.rows.size))
        with self.builder.when(inside) if self.tall else nullcontext():
            self._columns(row, columns, totals)

    def _columns(self, row: Expr, columns: Sequence[Expr], totals: Sequence[Expr]) -> None:
        builder, size = self.builder, self.p.columns.size
        for column, total in zip(columns, totals, strict=True):
            if not self.wide:
                self._store(row, column, total)
                continue
            lanes = total.lanes
            extent = self.p.columns.extents[-1] if self.p.columns.extents else 1
            if divisor(extent) % lanes == 0:
                with builder.when(build.apply(Primitive.LT, column, build.lift(size))):
                    self._store(row, column, total)
                continue
            for lane in range(lanes):
                here = build.add(column, lane)
                with builder.when(build.apply(Primitive.LT, here, build.lift(size))):
                    self._store(row, here, Shuffle((total,), (lane,)))

    def _store(self, row: Expr, column: Expr, total: Expr) -> None:
        at = self.p.index(self.builder, self.batch, row, build.ramp(column, 1, total.lanes))
        self.after.store(self.elements, at, total)
