"""One step of the sum of a register tile: a rank-1 update, every row's element of the left operand
times every vector of the right; of words, as many such updates at once as they have elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from xlac.codegen.core.contraction.byte_words import WORDS
from xlac.codegen.core.contraction.contraction import Contraction, multiply_add, read
from xlac.codegen.core.contraction.packing import Panels
from xlac.codegen.core.elements import Elements
from xlac.ir.dims import Dim
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Expr, Var
from xlac_sdk.kernel_ir.primitives import Primitive


@dataclass(frozen=True, slots=True)
class Rank1Update:
    """Writes steps of a contraction on vectors of `lanes` lanes."""

    elements: Elements
    c: Contraction
    right: Panels
    lanes: int
    hold: Literal["right", "fewer"]

    def write(
        self,
        sums: Sequence[Sequence[Var]],
        left: Expr,
        rows: Sequence[Dim],
        right: Expr,
        mask: Expr | None,
    ) -> None:
        """Adds the products at an offset of both operands; the last vector is loaded under `mask`
        unless the right operand is packed.
        """
        down, across = range(len(rows)), range(len(sums[0]))
        if self.hold == "fewer" and len(down) < len(across):
            wides = [self._element(left, row) for row in rows]
            for j in across:
                column = self._vector(right, j, mask if j == across[-1] else None)
                for i in down:
                    self._add(sums[i][j], wides[i], column)
            return
        columns = [self._vector(right, j, mask if j == across[-1] else None) for j in across]
        for i in down:
            wide = self._element(left, rows[i])
            for j in across:
                self._add(sums[i][j], wide, columns[j])

    def _vector(self, right: Expr, j: int, mask: Expr | None) -> Expr:
        packed, dtype = self.right.packed, self.right.source.dtype
        align = min(64, self.lanes * dtype.nbytes) if packed else 0
        where = build.add(right, j * self.lanes)
        if self.c.words > 1:
            buffer = self.elements.parameter(self.right.source.value, Access.READ)
            pairs = build.load(buffer, where, self.lanes, align=align)
            return self.elements.builder.let("w", build.bits(pairs, self.c.accumulate))
        value = read(
            self.elements,
            self.right.source,
            where,
            self.lanes,
            self.c.accumulate,
            None if packed else mask,
            align,
        )
        return self.elements.builder.let("w", value)

    def _element(self, left: Expr, row: Dim) -> Expr:
        where, source = build.add(left, row), self.c.left
        if self.c.word:
            buffer = self.elements.parameter(source.value, Access.READ)
            word, many = WORDS[source.dtype], self.c.products
            read_as = word if self.c.words == 1 else DType.U64
            wide = build.bits(build.load(buffer, where, many), read_as)
            wide = build.bits(build.splat(wide, self.lanes), word)
            return self.elements.builder.let("x", wide)
        value = read(self.elements, source, where, 1, self.c.accumulate)
        return self.elements.builder.let("x", build.splat(value, self.lanes))

    def _add(self, total: Var, wide: Expr, column: Expr) -> None:
        if self.c.word:
            pairs = self.c.left.dtype is DType.I16
            primitive = Primitive.DOT2 if pairs else Primitive.DOT4
            added = build.apply(primitive, wide, column, total)
        else:
            added = multiply_add(self.elements.target, wide, column, total)
        self.elements.builder.assign(total, added)
