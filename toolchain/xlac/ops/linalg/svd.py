"""Singular values and vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.graph import Node, pick
from xlac.ir.op import Array, Sample, declare
from xlac.ir.types import Type, Types
from xlac.ops import build
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
    Ints,
    check_matrix,
    diagonal,
    gathered,
    identity,
    on_diagonal,
    product,
    swapped,
)
from xlac_sdk.dtypes import DType


@declare
class Svd(Composite):
    """Matrices a (…, m, n) as U S V', with orthonormal columns in U and V and singular values,
    descending, as the diagonal S: (U, S, V').

    With k = min(m, n), S is (…, k). U is (…, m, m) and V' (…, n, n) with `full_matrices`, else
    (…, m, k) and (…, k, n). By Jacobi's method on one side, of whose rotations at most 30 sweeps
    are made. |U S V' - a| is within 30 k eps |a|, |U' U - I| and |V' V - I| within 30 k eps, in the
    Frobenius norm; signs of vectors, and vectors of equal values, are not determined.
    Infinities and NaNs make all NaN. The derivative is that of values all different and, where m
    and n differ, other than 0, without `full_matrices`.
    """

    mnemonic = "svd"
    operands = ("a",)
    leading = {}
    full_matrices: bool = True

    def infer(self, *types: Type) -> Types:
        (a,) = types
        rows, columns = check_matrix(self.mnemonic, a)
        size, batch = min(rows, columns), a.shape[:-2]
        left, right = (rows, columns) if self.full_matrices else (size, size)
        return (
            a.with_shape((*batch, rows, left)),
            a.with_shape((*batch, size)),
            a.with_shape((*batch, right, columns)),
        )

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None] | None:
        """With C = U' da V: dS is its diagonal; dU and dV are U and V times skew-symmetric
        matrices, and what da adds outside of their columns.
        """
        (change,) = tangents
        rows, columns = check_matrix(self.mnemonic, node.inputs[0].type)
        if change is None or (self.full_matrices and rows != columns) or not min(rows, columns):
            return None
        u, s, v = pick(node, 0), pick(node, 1), swapped(pick(node, 2))
        inner = product(product(swapped(u), change), v)
        rank, diagonals = inner.type.rank, on_diagonal(inner.shape)
        across, down = (build.back(s, inner.shape, (rank - k,)) for k in (2, 1))
        gaps = build.mul(build.add(across, down), build.sub(across, down))
        gaps = build.select(diagonals, 1.0, gaps)

        def turned(weighted: Node) -> Node:
            both = build.add(weighted, swapped(weighted))
            return build.select(diagonals, 0.0, build.div(both, gaps))

        by_u = product(u, turned(build.mul(inner, across)))
        by_v = product(v, turned(build.mul(inner, down)))
        if rows > columns:
            by_u = build.add(by_u, _outside(u, product(change, v), s))
        if columns > rows:
            by_v = build.add(by_v, _outside(v, product(swapped(change), u), s))
        return [by_u, diagonal(inner), swapped(by_v)]

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        (a,) = inputs
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
        return tuple(map(np.asarray, np.linalg.svd(arrays[0], self.full_matrices)))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        shapes: list[Ints] = [(0, 3, 3), (2, 0, 0), (0, 2, 3), (3, 0)]
        single = [Sample((Type(DType.F32, s),), {"full_matrices": False}) for s in shapes]
        return [*single, Sample((Type(DType.F64, (0, 3)),), {})]


def _factors(a: Node, complete: bool) -> tuple[Node, Node]:
    factors = build.apply("qr", a, complete=complete)
    assert isinstance(factors, tuple)
    return factors[0], factors[1]


def _extended(base: Node, u: Node, columns: int) -> Node:
    """The first columns of `base` times u, then the others as they are."""
    rank, count = base.type.rank, base.shape[-1]
    first = product(build.cut(base, rank - 1, 0, columns), u)
    if count == columns:
        return first
    return build.concat([first, build.cut(base, rank - 1, columns, count)], rank - 1)


def _outside(u: Node, change: Node, s: Node) -> Node:
    """The part of a change orthogonal to the columns of u, divided by the singular values."""
    rest = build.sub(change, product(u, product(swapped(u), change)))
    return build.div(rest, build.back(s, rest.shape, (rest.type.rank - 2,)))


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
