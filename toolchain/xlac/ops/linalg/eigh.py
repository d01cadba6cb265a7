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
from xlac.ops.linalg.jacobi import (
    epsilon,
    halves,
    only_finite,
    paired_anew,
    rotated,
    scaled_down,
    swept,
    tangents,
    turns,
)
from xlac.ops.linalg.matrices import (
    check_square,
    diagonal,
    gathered,
    identity,
    on_diagonal,
    part,
    swapped,
)
from xlac.ops.linalg.matrix_operation import MatrixOperation
from xlac_sdk.dtypes import DType


@declare
class Eigh(MatrixOperation):
    """Eigenvalues, ascending, and eigenvectors, as columns, of symmetric matrices: (values,
    vectors).

    Matrices are (…, n, n), of which only the `lower` (or upper) triangle is read; values are
    (…, n). By Jacobi's method, of whose rotations at most 30 sweeps are made. |a V - V w| is within
    30 n eps |a|, |V' V - I| within 30 n eps, in the Frobenius norm; signs of vectors, and vectors
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

    def _symmetric(self, a: Node) -> Node:
        """The symmetric matrices of the triangle that is read."""
        name, k = ("tril", -1) if self.lower else ("triu", 1)
        return build.add(build.apply1(name, a), swapped(build.apply1(name, a, k=k)))

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        (a,) = inputs
        if self.complex:
            values, found = spectra.eigh(self.numbers(a), self.lower, Eigh().expand)
            return values, self.node(found)
        size, rank = check_square(self.mnemonic, a.type), a.type.rank
        if size <= 1:
            return build.reshape(a, a.shape[:-1]), identity(a.type)
        small, factor = scaled_down(self._symmetric(a))
        values, rows = _diagonalized(small)
        order = build.cast(build.apply1("argsort", values, axis=rank - 2), DType.I32)
        values = build.apply1("take_along_axis", values, order, axis=rank - 2)
        scale = build.reshape(factor, (*a.shape[:-2], 1))
        vectors = only_finite(swapped(gathered(rows, order)), factor)
        return build.mul(values, scale), vectors

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        values, vectors = np.linalg.eigh(self.array(arrays[0]), "L" if self.lower else "U")
        return values.astype(arrays[0].dtype), self.pairs(vectors, arrays[0])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        single = [Sample((Type(DType.F32, s),), {}) for s in ((1, 1), (0, 3, 3), (2, 0, 0))]
        pairs = Sample((Type(DType.F32, (2, 1, 1, 2)),), {"complex": True})
        return [*single, Sample((Type(DType.F64, (2, 1, 1)),), {"lower": False}), pairs]


def _diagonalized(a: Node) -> tuple[Node, Node]:
    """Eigenvalues of symmetric matrices in no particular order, and eigenvectors as rows."""
    size, rank = check_square("eigh", a.type), a.type.rank
    even = size + size % 2
    # for an odd size: a padding row and column of zeros, which rotations leave unchanged
    if even != size:
        high = [0] * (rank - 2) + [1, 1]
        a = build.pad(a, 0.0, [0] * rank, high)
    whole = build.reduce(build.mul(a, a), "add", (rank - 2, rank - 1))
    limit = epsilon(a.type.dtype) ** 2

    def left(a: Node, vectors: Node, bound: Node) -> Node:
        outside = build.select(on_diagonal(a.shape), 0.0, a)
        rest = build.reduce(build.mul(outside, outside), "add", (rank - 2, rank - 1))
        return build.reduce(build.compare(rest, "gt", bound), "or")

    def step(a: Node, vectors: Node, bound: Node, number: Node) -> list[Node]:
        half, ends = even // 2, ((0, even // 2), (even // 2, even))
        blocks = [[part(a, rows, columns) for columns in ends] for rows in ends]
        first, between, second = (diagonal(b) for b in (blocks[0][0], blocks[0][1], blocks[1][1]))
        tangent = tangents(first, second, between)
        turn = turns(tangent)
        rotated_halves = rotated(halves(a, rank - 2), turn, rank - 2)
        made_of = [rotated(halves(rows, rank - 1), turn, rank - 1) for rows in rotated_halves]
        change = build.mul(tangent, between)
        exact = [[build.sub(first, change), None], [None, build.add(second, change)]]
        shape = (*a.shape[:-2], half, half)
        here = on_diagonal(shape)
        rows = []
        for row, known in zip(made_of, exact, strict=True):
            kept = [
                build.select(here, 0.0 if k is None else build.back(k, shape, (rank - 1,)), b)
                for b, k in zip(row, known, strict=True)
            ]
            rows.append(paired_anew((kept[0], kept[1]), rank - 1))
        vectors = paired_anew(rotated(halves(vectors, rank - 2), turn, rank - 2), rank - 2)
        return [paired_anew((rows[0], rows[1]), rank - 2), vectors, bound]

    first = a, identity(a.type), build.mul(whole, limit)
    swept_matrix, vectors, _ = swept(step, first, even - 1, left)
    return (
        build.cut(diagonal(swept_matrix), rank - 2, 0, size),
        part(vectors, (0, size), (0, size)),
    )
