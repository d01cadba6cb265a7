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
from xlac.ops.linalg import matrices
from xlac.ops.linalg.jacobi import halves, paired_anew, rotated, swept, tangents, turns
from xlac.ops.linalg.matrices import (
    Ints,
    check_matrix,
    diagonal,
    epsilon,
    gathered,
    identity,
    on_diagonal,
    only_finite,
    scaled_down,
    swapped,
)
from xlac.ops.linalg.matrix_operation import MatrixOperation
from xlac_sdk.dtypes import DType


@declare
class Svd(MatrixOperation):
    """Matrices a (…, m, n) as U S V', with orthonormal columns in U and V and singular values,
    descending, as the diagonal S: (U, S, V').

    With k = min(m, n), S is (…, k). U is (…, m, m) and V' (…, n, n) with `full_matrices`, else
    (…, m, k) and (…, k, n). By Jacobi's method on one side, of whose rotations at most 30 sweeps
    are made. |U S V' - a| is within 30 k eps |a|, |U' U - I| and |V' V - I| within 30 k eps, in the
    Frobenius norm; signs of vectors, and vectors of equal values, are not determined.
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
        (a,) = inputs
        if self.complex:
            left, values, right = spectra.svd(
                self.numbers(a), self.full_matrices, Svd(full_matrices=False).expand
            )
            return self.node(left), values, self.node(right)
        rows, columns = check_matrix(self.mnemonic, a.type)
        rank = a.type.rank
        if rows < columns:
            u, s, v = self.expand(swapped(a))
            return swapped(v), s, swapped(u)
        if not columns:
            types = self.infer(a.type)
            assert isinstance(types, tuple)
            eye = build.cast(on_diagonal(types[0].shape), a.type.dtype)
            return eye, *(build.full(0.0, t.shape, t.dtype) for t in types[1:])
        small, scale = scaled_down(a)
        base = None
        if rows > columns:
            base, small = _factors(small, self.full_matrices)
            small = build.cut(small, rank - 2, 0, columns)
        orthogonal, rows_of_v = _orthogonalized(swapped(small))
        sizes = build.sqrt(build.reduce(build.mul(orthogonal, orthogonal), "add", rank - 1))
        order = build.apply1("argsort", sizes, axis=rank - 2, descending=True)
        order = build.cast(order, DType.I32)
        sizes = build.apply1("take_along_axis", sizes, order, axis=rank - 2)
        q, r = _factors(swapped(gathered(orthogonal, order)), False)
        sign = build.select(build.compare(diagonal(r), "lt", 0.0), -1.0, 1.0)
        u = build.mul(q, build.back(sign, q.shape, (rank - 2,)))
        if base is not None:
            u = _extended(base, u, columns)
        values = build.mul(sizes, build.reshape(scale, (*a.shape[:-2], 1)))
        return u, values, only_finite(gathered(rows_of_v, order), scale)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        u, s, v = np.linalg.svd(self.array(arrays[0]), self.full_matrices)
        return self.pairs(u, arrays[0]), s.astype(arrays[0].dtype), self.pairs(v, arrays[0])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        shapes: list[Ints] = [(0, 3, 3), (2, 0, 0), (0, 2, 3), (3, 0)]
        single = [Sample((Type(DType.F32, s),), {"full_matrices": False}) for s in shapes]
        pairs = Sample((Type(DType.F32, (0, 3, 2, 2)),), {"complex": True})
        return [*single, Sample((Type(DType.F64, (0, 3)),), {}), pairs]


def _factors(a: Node, complete: bool) -> tuple[Node, Node]:
    factors = build.apply("qr", a, complete=complete)
    assert isinstance(factors, tuple)
    return factors[0], factors[1]


def _extended(base: Node, u: Node, columns: int) -> Node:
    """The first columns of `base` times u, then the others as they are."""
    rank, count = base.type.rank, base.shape[-1]
    first = matrices.product(build.cut(base, rank - 1, 0, columns), u)
    if count == columns:
        return first
    return build.concat([first, build.cut(base, rank - 1, columns, count)], rank - 1)


def _outside(u: Numbers, change: Numbers, s: Node) -> Numbers:
    """The part of a change orthogonal to the columns of u, divided by the singular values."""
    rest = sub(change, product(u, product(adjoint(u), change)))
    divisor = build.back(s, rest[0].shape, (rest[0].type.rank - 2,))
    return each(lambda x: build.div(x, divisor), rest)


def _orthogonalized(a: Node) -> tuple[Node, Node]:
    """The rows of square matrices, rotated until they are orthogonal, and the product of the
    rotations.
    """
    rank, size = a.type.rank, a.shape[-2]
    assert isinstance(size, int)
    even = size + size % 2
    turned = identity(a.type.with_shape((*a.shape[:-2], even, even)))
    if even != size:
        a = build.pad(a, 0.0, [0] * rank, [0] * (rank - 2) + [1, 0])
    whole = build.sqrt(build.reduce(build.mul(a, a), "add", (rank - 2, rank - 1)))
    bound = build.mul(whole, 4 * epsilon(a.type.dtype))
    batch = a.shape[:-2]

    def left(a: Node, vectors: Node, bound: Node, moved: Node) -> Node:
        return build.reduce(build.compare(moved, "gt", 0), "or")

    def step(a: Node, vectors: Node, bound: Node, moved: Node, number: Node) -> list[Node]:
        top, low = halves(a, rank - 2)
        first, second, between = (
            build.reduce(build.mul(x, y), "add", rank - 1)
            for x, y in ((top, top), (low, low), (top, low))
        )
        longest = build.sqrt(build.maximum(first, second))
        least = build.mul(longest, build.back(bound, longest.shape, (rank - 2,)))
        large = build.compare(build.apply1("abs", between), "gt", least)
        turn = turns(build.select(large, tangents(first, second, between), 0.0))
        a = paired_anew(rotated((top, low), turn, rank - 2), rank - 2)
        vectors = paired_anew(rotated(halves(vectors, rank - 2), turn, rank - 2), rank - 2)
        # of a sweep: the number of its last step that rotated something
        any_ = build.reduce(build.cast(large, DType.I32), "max", rank - 2)
        moved = build.select(build.compare(number, "eq", 0), any_, build.maximum(moved, any_))
        return [a, vectors, bound, moved]

    first = a, turned, bound, build.full(1, batch, DType.I32)
    columns, vectors, _, _ = swept(step, first, even - 1, left)
    return (
        build.cut(columns, rank - 2, 0, size),
        build.cut(build.cut(vectors, rank - 2, 0, size), rank - 1, 0, size),
    )
