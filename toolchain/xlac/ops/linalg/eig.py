"""Eigenvalues and eigenvectors of square matrices that need not be symmetric."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.graph import Node, pick
from xlac.ir.op import Array, Sample, declare
from xlac.ir.types import Type, Types
from xlac.ops import build
from xlac.ops.complex.linalg import eigenvectors, systems
from xlac.ops.complex.linalg.numbers import (
    Numbers,
    add,
    as_pairs,
    back,
    conjugate,
    diagonal,
    div,
    mul,
    negated,
    of_pairs,
    product,
    real,
    select,
    sub,
    summed,
)
from xlac.ops.linalg.matrices import check_square, on_diagonal
from xlac.ops.linalg.matrix_operation import MatrixOperation, lu_solved
from xlac_sdk.dtypes import DType


@declare
class Eig(MatrixOperation):
    """Eigenvalues and eigenvectors, as columns, of square matrices: (values, vectors), which are
    complex.

    Matrices are (…, n, n), with `complex` (…, n, n, 2); values are (…, n, 2), vectors
    (…, n, n, 2), the last axis the real and the imaginary part. A vector has length 1, and its
    largest number, the first of equals, is positive. Values are in no particular order, but for
    conjugate pairs of a real matrix, of which the one above the real axis is first. By the QR
    iteration, of at most 30 n sweeps. |a V - V w| is within 30 n eps |a| in the Frobenius norm.
    Infinities and NaNs make all NaN. The derivative is that of values all different.
    """

    mnemonic = "eig"
    operands = ("a",)

    def infer(self, *types: Type) -> Types:
        a = self.part(types[0])
        check_square(self.mnemonic, a)
        return a.with_shape((*a.shape[:-1], 2)), a.with_shape((*a.shape, 2))

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """With C = V⁻¹ da V: the diagonal of C, and V times C divided by the differences of the
        values, 0 on its diagonal; and of that what keeps the vectors' lengths and phases.
        """
        (given,) = tangents
        a, values, vectors = node.inputs[0], pick(node, 0), pick(node, 1)
        if given is None or not check_square(self.mnemonic, self.part(a.type)):
            return [None, None]
        change = self.numbers(given) if self.complex else real(given, (given, given))
        v, w = of_pairs(vectors), of_pairs(values)
        packed, _, order = systems.lu(v)
        inner = lu_solved(packed, order, product(change, v))
        shape, last = inner[0].shape, inner[0].type.rank - 1
        gaps = sub(back(w, shape, (last - 1,)), back(w, shape, (last,)))
        one, nothing = real(1.0, gaps), real(0.0, gaps)
        here = on_diagonal(shape)
        factors = select(here, nothing, div(one, select(here, one, gaps)))
        turned = mul(inner, factors)
        return [as_pairs(diagonal(inner)), as_pairs(_in_form(v, product(v, turned)))]

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        values, _, vectors, _ = eigenvectors.eig(self.numbers(inputs[0]))
        return as_pairs(values), as_pairs(vectors)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        (a,) = arrays
        values, vectors = np.linalg.eig(self.array(a))
        if vectors.size:
            place = np.argmax(np.abs(vectors), -2)[..., None, :]
            largest = np.take_along_axis(vectors, place, -2)
            vectors = vectors * (np.abs(largest) / largest)
        found = [np.stack([x.real, x.imag], -1).astype(a.dtype) for x in (values, vectors)]
        return tuple(found)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        single = [Sample((Type(DType.F32, s),), {}) for s in ((1, 1), (0, 3, 3), (2, 0, 0))]
        pairs = Sample((Type(DType.F32, (2, 1, 1, 2)),), {"complex": True})
        return [*single, Sample((Type(DType.F64, (2, 1, 1)),), {}), pairs]


def _in_form(v: Numbers, change: Numbers) -> Numbers:
    """A change of vectors v and the multiple of each for which it stays of length 1, with a largest
    number that is positive.
    """
    shape, axis = v[0].shape, v[0].type.rank - 2
    along = summed(mul(conjugate(v), change), axis)[0]
    square = build.add(*(build.mul(part, part) for part in v))
    place = build.apply1("argmax", square, axis=axis, keepdims=True, dtype=DType.I64)
    here = build.compare(build.iota(shape, axis), "eq", place)
    largest = build.reduce(build.select(here, v[0], 0.0), "add", axis)
    turned = build.reduce(build.select(here, change[1], 0.0), "add", axis)
    safe = build.select(build.compare(largest, "eq", 0.0), 1.0, largest)
    factor = negated((along, build.div(turned, safe)))
    return add(change, mul(back(factor, shape, (axis,)), v))
