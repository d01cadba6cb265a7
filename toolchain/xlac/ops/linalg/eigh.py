"""Eigenvalues and eigenvectors of symmetric matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.graph import Node, pick
from xlac.ir.op import Array, Sample, declare
from xlac.ir.types import Type, Types
from xlac.ops import build
from xlac.ops.complex.linalg import spectra
from xlac.ops.complex.linalg.numbers import adjoint, each, product
from xlac.ops.linalg.matrices import check_square, diagonal, on_diagonal
from xlac.ops.linalg.matrix_operation import MatrixOperation
from xlac_sdk.dtypes import DType


@declare
class Eigh(MatrixOperation):
    """Eigenvalues, ascending, and eigenvectors, as columns, of symmetric matrices: (values,
    vectors).

    Matrices are (…, n, n), of which only the `lower` (or upper) triangle is read; values are
    (…, n). By a tridiagonal matrix and divide and conquer. |a V - V w| is within 30 n eps |a|,
    |V' V - I| within 30 n eps, in the Frobenius norm; signs of vectors, and vectors
    of equal values, are not determined. Infinities and NaNs make all NaN. The derivative is that of
    values all different. With `complex`, a, Hermitian, and vectors have a last axis of 2, and
    phases of vectors are not determined.
    """

    mnemonic = "eigh"
    operands = ("a",)
    lower: bool = True

    def infer(self, *types: Type) -> Types:
        a = self.part(types[0])
        check_square(self.mnemonic, a)
        return a.with_shape(a.shape[:-1]), types[0]

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """With C = V' da V: the diagonal of C, and V times C divided by the differences of the
        values, 0 on its diagonal.
        """
        (given,) = tangents
        assert given is not None
        values, vectors = pick(node, 0), self.numbers(pick(node, 1))
        change = spectra.hermitian(self.numbers(given), self.lower)
        inner = product(product(adjoint(vectors), change), vectors)
        rank, shape = inner[0].type.rank, inner[0].shape
        across, down = (build.back(values, shape, (rank - k,)) for k in (2, 1))
        gaps = build.select(on_diagonal(shape), 1.0, build.sub(across, down))
        turned = each(lambda x: build.select(on_diagonal(shape), 0.0, build.div(x, gaps)), inner)
        return [diagonal(inner[0]), self.node(product(vectors, turned))]

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        values, vectors = spectra.eigh(self.numbers(inputs[0]), self.lower)
        return values, self.node(vectors)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        values, vectors = np.linalg.eigh(self.array(arrays[0]), "L" if self.lower else "U")
        return values.astype(arrays[0].dtype), self.pairs(vectors, arrays[0])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        single = [Sample((Type(DType.F32, s),), {}) for s in ((1, 1), (0, 3, 3), (2, 0, 0))]
        pairs = Sample((Type(DType.F32, (2, 1, 1, 2)),), {"complex": True})
        return [*single, Sample((Type(DType.F64, (2, 1, 1)),), {"lower": False}), pairs]
