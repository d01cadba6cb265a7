"""Orthonormal columns times a triangular matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.graph import Node, pick
from xlac.ir.op import Array, Sample, declare
from xlac.ir.types import Type, Types
from xlac.ops import build
from xlac.ops.complex.linalg.numbers import (
    add,
    adjoint,
    concat,
    cut,
    each,
    negated,
    product,
    real,
    sub,
)
from xlac.ops.linalg.matrices import Ints, check_matrix, on_diagonal
from xlac.ops.linalg.matrix_operation import MatrixOperation, triangular_solved
from xlac_sdk.dtypes import DType


@declare
class Qr(MatrixOperation):
    """Matrices a (…, m, n) as Q R, with orthonormal columns in Q and upper triangular R: (Q, R).

    With k = min(m, n), or m where `complete`, Q is (…, m, k) and R (…, k, n). By reflections, as
    LAPACK and NumPy do: numbers on R's diagonal may be negative. |Q R - a| is within 6 m n eps |a|,
    |Q' Q - I| within 6 m n eps, in the Frobenius norm. With `complex`, all have a last axis of 2,
    and R's diagonal is real.
    """

    mnemonic = "qr"
    operands = ("a",)
    complete: bool = False

    def infer(self, *types: Type) -> Types:
        a = self.part(types[0])
        rows, columns = check_matrix(self.mnemonic, a)
        size = rows if self.complete else min(rows, columns)
        q, r = (a.with_shape((*a.shape[:-2], *s)) for s in ((rows, size), (size, columns)))
        return self.paired(q), self.paired(r)

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None] | None:
        """With C = Q' da R⁻¹ and W the skew-symmetric matrix that has C below its diagonal:
        dQ = Q (W - C) + da R⁻¹ and dR = (C - W) R. For complex numbers, with adjoints, W also has
        the imaginary part of C's diagonal, so that R's stays real. Columns beyond the first m only
        give Q' a. That of a complete Q with more rows than columns is the derivative of the
        reflections.
        """
        part = self.part(node.inputs[0].type)
        rows, columns = check_matrix(self.mnemonic, part)
        last, size = part.rank - 1, min(rows, columns)
        if tangents[0] is None or (self.complete and rows > columns) or not size:
            return None
        a, change, q, whole = map(
            self.numbers, (node.inputs[0], tangents[0], pick(node, 0), pick(node, 1))
        )
        r = cut(whole, last, 0, size)
        along = triangular_solved(r, cut(change, last, 0, size), left=False, lower=False)
        inner = product(adjoint(q), along)
        low = each(lambda x: build.apply1("tril", x, k=-1), inner)
        turn = sub(low, adjoint(low))
        if self.complex:
            kept = build.select(on_diagonal(turn[1].shape), inner[1], turn[1])
            turn = turn[0], kept
        turned = sub(turn, inner)
        by_q = add(product(q, turned), along)
        by_r = negated(product(turned, r))
        if columns > size:
            right = product(adjoint(q), cut(change, last, size, columns))
            right = add(right, product(adjoint(by_q), cut(a, last, size, columns)))
            by_r = concat([by_r, right], last)
        return [self.node(by_q), self.node(by_r)]

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        (a,) = inputs
        part = self.part(a.type)
        rows, columns = check_matrix(self.mnemonic, part)
        last = part.rank - 1
        factors = build.apply("householder_qr", a, complex=self.complex)
        assert isinstance(factors, tuple)
        packed = self.numbers(factors[0])
        size = rows if self.complete else min(rows, columns)
        given = cut(packed, last, 0, min(size, columns))
        if size > columns:
            zeros = build.full(0.0, (*part.shape[:-1], size - columns), part.dtype)
            given = concat([given, real(zeros, given)], last)
        q = build.apply1("householder_product", self.node(given), factors[1], complex=self.complex)
        high = each(lambda x: build.apply1("triu", x), cut(packed, last - 1, 0, size))
        return q, self.node(high)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        q, r = np.linalg.qr(self.array(arrays[0]), "complete" if self.complete else "reduced")
        return self.pairs(q, arrays[0]), self.pairs(r, arrays[0])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, bool]] = [
            ((4, 4), False), ((1, 1), False), ((3, 5), False), ((5, 3), False), ((5, 3), True),
            ((3, 5), True), ((2, 3, 3), False), ((0, 3, 3), False), ((2, 0, 0), False),
            ((3, 0), True), ((0, 2), False),
        ]  # fmt: skip
        single = [Sample((Type(DType.F32, s),), {"complete": c}) for s, c in cases]
        pairs = [
            Sample((Type(DType.F32, (*s, 2)),), {"complex": True, "complete": c})
            for s, c in (((2, 3, 3), False), ((4, 2), True))
        ]
        return [*single, Sample((Type(DType.F64, (6, 6)),), {}), *pairs]
