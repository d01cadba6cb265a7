"""Reads of queries, keys and values by the threads of a split-KV decode kernel."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.codegen.core.attention_problem import AttentionProblem
from xlac.codegen.core.contraction.contraction import multiply_add
from xlac.codegen.core.contraction.matrix_operand import Counters, MatrixOperand, apart, offset
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.gpu.attention.decode_split import DecodeSplit
from xlac.codegen.gpu.attention.softmax_state import SplitResults
from xlac.codegen.gpu.core.shared_staging import all_of
from xlac.ir.dims import divisor
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Exchange, Expr, Shuffle
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive


class DecodeReads:
    """Reads the parts of rows that a thread holds, and computes their products."""

    def __init__(
        self,
        elements: Elements,
        after: Epilogue,
        h: AttentionProblem,
        how: DecodeSplit,
        target: Target,
        splits: SplitResults | None,
    ) -> None:
        self.elements, self.builder, self.after, self.h, self.how = (
            elements,
            elements.builder,
            after,
            h,
            how,
        )
        self.target, self.splits, self.dtype = target, splits, h.dtype.compute

    def _row(self, row: Expr) -> Expr:
        """A row of the operand, clamped to the last; results of rows past it are not stored."""
        if divisor(self.h.rows) % self.how.few:
            row = build.apply(P.MIN, row, build.lift(self.h.rows - 1))
        return self.builder.let("row", row)

    def _query(self, batch: Counters, row: Expr, element: Expr, held: list[Expr]) -> list[Expr]:
        side = self.h.queries
        base = side.moved(side.start(batch), apart(self.builder, row, side.extents))
        return self._read(side, self.builder.let("base", base), [element], held)

    def _read(
        self, side: MatrixOperand, base: Expr, counters: Counters, there: list[Expr]
    ) -> list[Expr]:
        """A thread's part of a row's width, in vectors, converted to the accumulator type."""
        builder, how = self.builder, self.how
        buffer = self.elements.parameter(side.source.value, Access.READ)
        where = builder.let("where", offset(base, counters, side.depth))
        along = side is self.h.queries
        depth = (self.h.widths[0],) if along else (self.h.length,)
        mask = all_of(there) if there else None
        if side.width(how.lanes, along_depth=along, depth=depth) == how.lanes > how.part:
            wide = None if mask is None else build.splat(mask, how.lanes)
            whole = builder.let(
                "whole", build.load(buffer, where, how.lanes, wide, how.lanes * buffer.dtype.nbytes)
            )
            picks = [tuple(range(at, at + how.part)) for at in range(0, how.lanes, how.part)]
            return [
                builder.let("x", build.cast(Shuffle((whole,), pick), self.dtype)) for pick in picks
            ]
        stride = side.depth[0] if along else side.strides[0]
        assert isinstance(stride, int)
        vectors = []
        align = (
            how.part * buffer.dtype.nbytes
            if side.width(how.part, along_depth=along, depth=depth) == how.part > 1
            else 0
        )
        wide = None if mask is None else build.splat(mask, how.part)
        for at in range(0, how.lanes, how.part):
            place = build.ramp(build.add(where, at * stride), stride, how.part)
            vectors.append(
                builder.let(
                    "x", build.cast(build.load(buffer, place, mask=wide, align=align), self.dtype)
                )
            )
        return vectors

    def _product(self, query: Sequence[Expr], key: Sequence[Expr]) -> Expr:
        """The dot product of a query and a key; every thread of the row gets it."""
        builder = self.builder
        total: Expr = build.apply(P.MUL, query[0], key[0])
        for left, right in zip(query[1:], key[1:], strict=True):
            total = multiply_add(self.target, left, right, total)
        total = builder.let("product", build.fold(P.ADD, total))
        distance = self.how.across // 2
        while distance:
            total = builder.let("product", build.apply(P.ADD, total, Exchange(total, distance)))
            distance //= 2
        return total
