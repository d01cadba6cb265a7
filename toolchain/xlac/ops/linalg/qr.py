"""Orthonormal columns times a triangular matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.graph import Node, pick
from xlac.ir.op import Array, Sample, declare
from xlac.ir.types import Type, Types
from xlac.ops import build
from xlac.ops.linalg.matrices import Ints, check_matrix, product, swapped
from xlac_sdk.dtypes import DType


@declare
class Qr(Composite):
    """Matrices a (…, m, n) as Q R, with orthonormal columns in Q and upper triangular R: (Q, R).

    With k = min(m, n), or m where `complete`, Q is (…, m, k) and R (…, k, n). By reflections, as
    LAPACK and NumPy do: numbers on R's diagonal may be negative. |Q R - a| is within 6 m n eps |a|,
    |Q' Q - I| within 6 m n eps, in the Frobenius norm.
    """

    mnemonic = "qr"
    operands = ("a",)
    leading = {}
    complete: bool = False

    def infer(self, *types: Type) -> Types:
        (a,) = types
        rows, columns = check_matrix(self.mnemonic, a)
        size = rows if self.complete else min(rows, columns)
        batch = a.shape[:-2]
        return a.with_shape((*batch, rows, size)), a.with_shape((*batch, size, columns))

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None] | None:
        """With C = Q' da R⁻¹ and W the skew-symmetric matrix that has C below its diagonal:
        dQ = Q (W - C) + da R⁻¹ and dR = (C - W) R. Columns beyond the first m only give Q' a. That
        of a complete Q with more rows than columns is the derivative of the reflections.
        """
        (change,) = tangents
        rows, columns = check_matrix(self.mnemonic, node.inputs[0].type)
        rank, size = node.inputs[0].type.rank, min(rows, columns)
        if change is None or (self.complete and rows > columns) or not size:
            return None
        q, r = pick(node, 0), build.cut(pick(node, 1), rank - 1, 0, size)
        left = build.cut(change, rank - 1, 0, size)
        along = build.apply1("triangular_solve", r, left, left=False, lower=False)
        inner = product(swapped(q), along)
        low = build.apply1("tril", inner, k=-1)
        turned = build.sub(build.sub(low, swapped(low)), inner)
        by_q = build.add(product(q, turned), along)
        by_r = build.apply1("neg", product(turned, r))
        if columns > size:
            right = product(swapped(q), build.cut(change, rank - 1, size, columns))
            rest = build.cut(node.inputs[0], rank - 1, size, columns)
            right = build.add(right, product(swapped(by_q), rest))
            by_r = build.concat([by_r, right], rank - 1)
        return [by_q, by_r]

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        (a,) = inputs
        rows, columns = check_matrix(self.mnemonic, a.type)
        rank = a.type.rank
        factors = build.apply("householder_qr", a)
        assert isinstance(factors, tuple)
        packed, taus = factors
        size = rows if self.complete else min(rows, columns)
        given = build.cut(packed, rank - 1, 0, min(size, columns))
        if size > columns:
            zeros = build.full(0.0, (*a.shape[:-1], size - columns), a.type.dtype)
            given = build.concat([given, zeros], rank - 1)
        q = build.apply1("householder_product", given, taus)
        return q, build.apply1("triu", build.cut(packed, rank - 2, 0, size))

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        q, r = np.linalg.qr(arrays[0], "complete" if self.complete else "reduced")
        return np.asarray(q), np.asarray(r)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, bool]] = [
            ((4, 4), False), ((1, 1), False), ((3, 5), False), ((5, 3), False), ((5, 3), True),
            ((3, 5), True), ((2, 3, 3), False), ((0, 3, 3), False), ((2, 0, 0), False),
            ((3, 0), True), ((0, 2), False),
        ]  # fmt: skip
        single = [Sample((Type(DType.F32, s),), {"complete": c}) for s, c in cases]
        return [*single, Sample((Type(DType.F64, (6, 6)),), {})]
