"""Singular values and vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.graph import Node, pick
from xlac.ir.op import Array, Sample, declare
from xlac.ir.types import Type, Types
from xlac.ops import build
from xlac.ops.complex.linalg import spectra
from xlac.ops.complex.linalg.numbers import Numbers, add, adjoint, each, product, scaled, sub
from xlac.ops.linalg.matrices import Ints, check_matrix, diagonal, on_diagonal
from xlac.ops.linalg.matrix_operation import MatrixOperation
from xlac_sdk.dtypes import DType


@declare
class Svd(MatrixOperation):
    """Matrices a (…, m, n) as U S V', with orthonormal columns in U and V and singular values,
    descending, as the diagonal S: (U, S, V').

    With k = min(m, n), S is (…, k). U is (…, m, m) and V' (…, n, n) with `full_matrices`, else
    (…, m, k) and (…, k, n). By a bidiagonal matrix and divide and conquer. |U S V' - a| is within
    30 k eps |a|, |U' U - I| and |V' V - I| within 30 k eps, in the Frobenius norm; signs of
    vectors, and vectors of equal values, are not determined.
    Infinities and NaNs make all NaN. The derivative is that of values all different and, where m
    and n differ, other than 0, without `full_matrices`. With `complex`, all but S have a last axis
    of 2, ' is the adjoint, and phases of vectors are not determined.
    """

    mnemonic = "svd"
    operands = ("a",)
    full_matrices: bool = True

    def infer(self, *types: Type) -> Types:
        a = self.part(types[0])
        rows, columns = check_matrix(self.mnemonic, a)
        size, batch = min(rows, columns), a.shape[:-2]
        left, right = (rows, columns) if self.full_matrices else (size, size)
        return (
            self.paired(a.with_shape((*batch, rows, left))),
            a.with_shape((*batch, size)),
            self.paired(a.with_shape((*batch, right, columns))),
        )

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None] | None:
        """With C = U' da V: dS is its diagonal; dU and dV are U and V times skew-symmetric
        matrices, and what da adds outside of their columns. Of complex numbers, an imaginary part
        of C's diagonal turns columns of U.
        """
        rows, columns = check_matrix(self.mnemonic, self.part(node.inputs[0].type))
        square = self.full_matrices and rows != columns
        if tangents[0] is None or square or not min(rows, columns):
            return None
        change, s = self.numbers(tangents[0]), pick(node, 1)
        u, v = self.numbers(pick(node, 0)), adjoint(self.numbers(pick(node, 2)))
        inner = product(product(adjoint(u), change), v)
        shape = inner[0].shape
        diagonals = on_diagonal(shape)
        across, down = (build.back(s, shape, (len(shape) - k,)) for k in (2, 1))
        gaps = build.mul(build.add(across, down), build.sub(across, down))
        gaps = build.select(diagonals, 1.0, gaps)

        def turned(weights: Node) -> Numbers:
            weighted = scaled(inner, weights)
            both = add(weighted, adjoint(weighted))
            return each(lambda x: build.select(diagonals, 0.0, build.div(x, gaps)), both)

        turn = turned(across)
        if self.complex:
            phases = build.div(inner[1], build.select(diagonals, across, 1.0))
            turn = turn[0], build.select(diagonals, phases, turn[1])
        by_u, by_v = product(u, turn), product(v, turned(down))
        if rows > columns:
            by_u = add(by_u, _outside(u, product(change, v), s))
        if columns > rows:
            by_v = add(by_v, _outside(v, product(adjoint(change), u), s))
        return [self.node(by_u), diagonal(inner[0]), self.node(adjoint(by_v))]

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        left, values, right = spectra.svd(self.numbers(inputs[0]), self.full_matrices)
        return self.node(left), values, self.node(right)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        u, s, v = np.linalg.svd(self.array(arrays[0]), self.full_matrices)
        return self.pairs(u, arrays[0]), s.astype(arrays[0].dtype), self.pairs(v, arrays[0])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        shapes: list[Ints] = [(0, 3, 3), (2, 0, 0), (0, 2, 3), (3, 0)]
        single = [Sample((Type(DType.F32, s),), {"full_matrices": False}) for s in shapes]
        reduced = {"complex": True, "full_matrices": False}  # which alone have derivatives
        pairs = Sample((Type(DType.F32, (0, 3, 2, 2)),), reduced)
        return [*single, Sample((Type(DType.F64, (0, 3)),), {}), pairs]


def _outside(u: Numbers, change: Numbers, s: Node) -> Numbers:
    """The part of a change orthogonal to the columns of u, divided by the singular values."""
    rest = sub(change, product(u, product(adjoint(u), change)))
    divisor = build.back(s, rest[0].shape, (rest[0].type.rank - 2,))
    return each(lambda x: build.div(x, divisor), rest)
