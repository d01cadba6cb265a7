"""Householder reflections that make matrices triangular, and their product."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.graph import Node, pick
from xlac.ir.op import Array, Sample, ShapeError, declare
from xlac.ir.types import Type, Types
from xlac.ops import build
from xlac.ops.complex.linalg import reflections
from xlac.ops.linalg.matrices import (
    Ints,
    check_matrix,
    entry,
    first_block,
    on_diagonal,
    over,
    part,
    product,
    swapped,
)
from xlac.ops.linalg.matrix_operation import MatrixOperation
from xlac_sdk.dtypes import DType

F32 = DType.F32
PANEL = 16  # columns of a panel, reflected one by one
REFLECTIONS = 128  # of a product that are applied together


@declare
class HouseholderQr(MatrixOperation):
    """Reflections H = I - tau v v' of which the product makes matrices a (…, m, n) upper
    triangular: (packed, taus), as LAPACK's geqrf.

    R is on and above the diagonal of `packed` (…, m, n). Column k below it is what follows the 1 in
    the k-th v, which begins with k zeros; `taus` is (…, min(m, n)), 0 where nothing is to be
    reflected. The product H₁ H₂ … is Q with Q R = a, within 6 m n eps |a| in the Frobenius norm.
    With `complex`, all have a last axis of 2, H = I - tau v v*, and R has a real diagonal.
    """

    mnemonic = "householder_qr"
    operands = ("a",)

    def infer(self, *types: Type) -> Types:
        a = self.part(types[0])
        rows, columns = check_matrix(self.mnemonic, a)
        return types[0], self.paired(a.with_shape((*a.shape[:-2], min(rows, columns))))

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        if self.complex:
            packed, taus = reflections.qr(self.numbers(inputs[0]))
            return self.node(packed), self.node(taus)
        return _reflected(inputs[0])

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        packed = np.array(self.array(arrays[0]))
        *batch, rows, columns = packed.shape
        taus = np.zeros((*batch, min(rows, columns)), packed.dtype)
        for at in np.ndindex(*batch):
            _reflect(packed[at], taus[at])
        return self.pairs(packed, arrays[0]), self.pairs(taus, arrays[0])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        shapes: list[Ints] = [
            (4, 4), (1, 1), (3, 5), (5, 3), (2, 3, 3), (0, 3, 3), (2, 0, 0), (0, 2), (3, 0),
        ]  # fmt: skip
        single = [Sample((Type(F32, s),), {}) for s in shapes]
        pairs = [Sample((Type(F32, (*s, 2)),), {"complex": True}) for s in ((3, 3), (2, 3, 2))]
        return [*single, Sample((Type(DType.F64, (6, 6)),), {}), *pairs]


@declare
class HouseholderProduct(MatrixOperation):
    """The first columns of the product H₁ H₂ … Hₖ of reflections given as `householder_qr` gives
    them, as LAPACK's orgqr.

    `packed` is (…, m, n) with n ≤ m, `taus` (…, k) with k ≤ n; the result is (…, m, n). Its columns
    are orthonormal within 6 m n eps. With `complex`, all have a last axis of 2.
    """

    mnemonic = "householder_product"
    operands = ("packed", "taus")

    def infer(self, *types: Type) -> Type:
        packed, taus = (self.part(t, n) for n, t in enumerate(types))
        rows, columns = check_matrix(self.mnemonic, packed)
        count = taus.shape[-1] if taus.rank else None
        fits = isinstance(count, int) and count <= columns <= rows
        if not fits or taus != packed.with_shape((*packed.shape[:-2], count or 0)):
            raise ShapeError(
                f"{self.mnemonic} needs at least as many rows as columns, and as many as there are "
                f"factors of the same batch, got {types[0]} and {types[1]}",
                operand=1,
            )
        return types[0]

    def expand(self, *inputs: Node) -> Node:
        """I - V (I + D N)⁻¹ D V', the compact WY form, with the vectors as columns of V, taus on
        the diagonal of D, and the part of V' V above its diagonal as N; its first columns. Of many
        reflections that is the form of the first, times the product of the others.
        """
        packed, taus = inputs
        if self.complex:
            return self.node(
                reflections.householder_product(self.numbers(packed), self.numbers(taus))
            )
        (rows, columns), rank, count = packed.shape[-2:], packed.type.rank, taus.shape[-1]
        assert isinstance(count, int) and isinstance(columns, int) and isinstance(rows, int)
        others = build.cast(on_diagonal(packed.shape), packed.type.dtype)
        if not count or not columns:
            return others
        first = min(count, REFLECTIONS)
        v, scales = vectors(packed, first), build.cut(taus, rank - 2, 0, first)
        right = swapped(build.cut(v, rank - 2, 0, columns))
        if count > first:
            low = part(packed, (first, rows), (first, columns))
            rest = build.cut(taus, rank - 2, first, count)
            rest = build.apply1("householder_product", low, rest)
            others, right = _after_identity(rest, first), _read_by(v, rest)
        right = _scaled(right, scales)
        inner = build.apply1("triangular_solve", _between(v, scales), right, lower=False, unit=True)
        return build.sub(others, product(v, inner))

    def evaluate(self, *arrays: Array) -> Array:
        packed, taus = map(self.array, arrays)
        *batch, rows, columns = packed.shape
        q = np.broadcast_to(np.eye(rows, columns, dtype=packed.dtype), packed.shape).copy()
        for at in np.ndindex(*batch):
            for k in reversed(range(taus.shape[-1])):
                v = np.concatenate([np.zeros(k), [1.0], packed[at][k + 1 :, k]])
                v = v.astype(packed.dtype)
                q[at] -= taus[at][k] * np.outer(v, v.conj() @ q[at])
        return self.pairs(q, arrays[0])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        shapes: list[tuple[Ints, int]] = [
            ((4, 4), 4), ((1, 1), 1), ((5, 3), 2), ((2, 3, 3), 3), ((0, 3, 3), 2), ((2, 0, 0), 0),
            ((3, 0), 0), ((3, 2), 0),
        ]  # fmt: skip
        single = [
            Sample((Type(F32, s), Type(F32, (*s[:-2], k))), {}, ("unit", "positive"))
            for s, k in shapes
        ]
        wide = Type(DType.F64, (5, 4)), Type(DType.F64, (4,))
        pairs = Type(F32, (3, 2, 2)), Type(F32, (2, 2))
        return [
            *single,
            Sample(wide, {}, ("unit", "positive")),
            Sample(pairs, {"complex": True}, ("unit", "positive")),
        ]


def _after_identity(a: Node, count: int) -> Node:
    """The matrices with `count` rows and columns of the identity before a."""
    rank, (rows, columns) = a.type.rank, a.shape[-2:]
    assert isinstance(rows, int) and isinstance(columns, int)
    wide = a.type.with_shape((*a.shape[:-2], count, count + columns))
    above = build.cast(on_diagonal(wide.shape), wide.dtype)
    beside = build.full(0.0, (*a.shape[:-2], rows, count), wide.dtype)
    return build.concat([above, build.concat([beside, a], rank - 1)], rank - 2)


def _read_by(v: Node, a: Node) -> Node:
    """V' times `_after_identity(a)`, without its zeros."""
    rank, count, rows = v.type.rank, v.shape[-1], v.shape[-2]
    above, below = (swapped(build.cut(v, rank - 2, *e)) for e in ((0, count), (count, rows)))
    return build.concat([above, product(below, a)], rank - 1)


def _reflect(a: Array, taus: Array) -> None:
    """Replaces a matrix by its factors, in place."""
    for k in range(len(taus)):
        alpha, tail = a[k, k], a[k + 1 :, k]
        if not np.any(tail) and not alpha.imag:
            continue
        scale = np.max(np.abs(a[k:, k]))  # avoids denormal squares, which would lose digits
        alpha, tail = alpha / scale, tail / scale
        beta = -np.copysign(np.linalg.norm([alpha, *tail]), alpha.real)
        taus[k] = (beta - alpha) / beta
        v = np.concatenate([np.ones(1, a.dtype), tail / (alpha - beta)])
        a[k:, k + 1 :] -= np.conj(taus[k]) * np.outer(v, v.conj() @ a[k:, k + 1 :])
        a[k, k], a[k + 1 :, k] = beta * scale, v[1:]


def vectors(packed: Node, count: int) -> Node:
    """The first vectors as columns: 1 on the diagonal, 0 above."""
    rank = packed.type.rank
    low = build.cut(packed, rank - 1, 0, count)
    return build.select(on_diagonal(low.shape), 1.0, build.apply1("tril", low, k=-1))


def _scaled(a: Node, taus: Node) -> Node:
    """The rows of a, scaled by taus."""
    return build.mul(a, build.back(taus, a.shape, (a.type.rank - 1,)))


def _between(v: Node, taus: Node) -> Node:
    """D N; only the part above its diagonal is used."""
    return _scaled(product(swapped(v), v), taus)


def _reflected(a: Node) -> tuple[Node, Node]:
    """The factors, by recursive blocks: factor the first columns, apply their reflections to the
    rest, factor the rest.
    """
    rows, columns = check_matrix("householder_qr", a.type)
    rank, steps = a.type.rank, min(rows, columns)
    size = rows if rows < columns else first_block(steps, PANEL)
    if size == columns:
        return _column_by_column(a)
    left, taus = _reflected(build.cut(a, rank - 1, 0, size))
    right = build.cut(a, rank - 1, size, columns)
    v = vectors(left, size)
    inner = build.apply1(
        "triangular_solve",
        _between(v, taus),
        product(swapped(v), right),
        lower=False,
        unit=True,
        transpose=True,
    )
    inner = _scaled(inner, taus)
    right = build.sub(right, product(v, inner))
    if size == rows:
        return build.concat([left, right], rank - 1), taus
    below, others = _reflected(build.cut(right, rank - 2, size, rows))
    right = build.concat([build.cut(right, rank - 2, 0, size), below], rank - 2)
    return build.concat([left, right], rank - 1), build.concat([taus, others], rank - 2)


def _column_by_column(a: Node) -> tuple[Node, Node]:
    """The factors, column by column."""
    rows, columns = check_matrix("householder_qr", a.type)
    rank, batch, steps = a.type.rank, a.shape[:-2], min(rows, columns)
    if not steps:
        return a, build.full(0.0, (*batch, 0), a.type.dtype)
    axes = tuple(range(rank - 2))

    def step(a: Node, number: Node) -> list[Node]:
        column = entry(a, rank - 1, number)  # (…, m)
        count = build.iota(column.shape, rank - 2)
        here, below = (build.compare(count, how, number) for how in ("eq", "gt"))
        left = build.select(build.compare(count, "ge", number), column, 0.0)
        tail = build.select(below, column, 0.0)
        scale, most = (
            build.reduce(build.apply1("abs", x), "max", rank - 2, keepdims=True)
            for x in (left, tail)
        )
        flat = build.compare(most, "eq", 0.0)
        safe = build.select(flat, 1.0, scale)
        left = build.div(left, safe)
        alpha = build.reduce(build.select(here, left, 0.0), "add", rank - 2, keepdims=True)
        square = build.reduce(build.mul(left, left), "add", rank - 2, keepdims=True)
        size = build.sqrt(build.select(flat, 1.0, square))
        beta = build.select(build.compare(alpha, "lt", 0.0), size, build.apply1("neg", size))
        beta = build.select(flat, alpha, beta)
        tau = build.div(build.sub(beta, alpha), build.select(flat, 1.0, beta))
        v = build.div(
            build.select(below, left, 0.0), build.select(flat, 1.0, build.sub(alpha, beta))
        )
        beta = build.mul(beta, safe)
        whole = build.select(here, 1.0, v)
        change = build.mul(build.dot(whole, a, ((rank - 2,), (rank - 2,)), (axes, axes)), tau)
        place = build.iota(a.shape, rank - 1)
        wide = build.back(whole, a.shape, (rank - 1,))
        moved = build.sub(a, build.mul(wide, build.back(change, a.shape, (rank - 2,))))
        kept = build.select(below, v, build.select(here, beta, column))
        kept = build.back(kept, a.shape, (rank - 1,))
        reflected = build.select(
            build.compare(place, "gt", number),
            moved,
            build.select(build.compare(place, "eq", number), kept, a),
        )
        return [reflected, build.reshape(tau, batch)]

    results = over(steps, step, (a,), ())
    taus = build.transpose(pick(results, 1), [*range(1, rank - 1), 0])
    return pick(results, 0), taus
