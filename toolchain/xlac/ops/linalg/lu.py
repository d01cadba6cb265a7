"""Gaussian elimination with partial pivoting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.dims import Dim
from xlac.ir.graph import Node, pick
from xlac.ir.op import Array, Sample, declare
from xlac.ir.types import Type, Types
from xlac.ops import build
from xlac.ops.complex.linalg import numbers, systems
from xlac.ops.complex.linalg.numbers import Numbers, each
from xlac.ops.linalg.matrices import (
    COLUMNS,
    Ints,
    check_matrix,
    entry,
    first_block,
    gathered,
    over,
    product,
)
from xlac.ops.linalg.matrix_operation import MatrixOperation, triangular_solved
from xlac_sdk.dtypes import DType


@declare
class Lu(MatrixOperation):
    """Factors of matrices a (…, m, n) with rows exchanged: (packed, pivots, permutation).

    The rows of a in the order of `permutation` (…, m) are L U: L, lower triangular with a diagonal
    of 1, is below the diagonal of `packed` (…, m, n), U on and above it. Step k exchanges row k
    with row pivots[k] ≥ k, that of the largest number in its column (the first of equals; NaN
    counts as the largest); `pivots` is (…, min(m, n)), both are i32 and count from 0. Where all of
    a column is 0, U has a 0 on its diagonal and L zeros below it, as with LAPACK's getrf. The
    residual |L U - P a| is below 2 n eps |L| |U|, element by element. With `complex`, a and
    `packed` have a last axis of 2, and numbers are compared by the sum of their parts' magnitudes.
    """

    mnemonic = "lu"
    operands = ("a",)

    def infer(self, *types: Type) -> Types:
        a = self.part(types[0])
        rows, columns = check_matrix(self.mnemonic, a)
        batch = a.shape[:-2]
        pivots = Type(DType.I32, (*batch, min(rows, columns)))
        return types[0], pivots, Type(DType.I32, (*batch, rows))

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """With C = L⁻¹ P da U⁻¹: dL = L times what is below the diagonal of C, dU the rest times U.
        Where m and n differ, L and U are completed to square matrices by the identity.
        """
        (given,) = tangents
        assert given is not None
        packed, rows = self.numbers(pick(node, 0)), pick(node, 2)
        change = each(lambda x: gathered(x, rows), self.numbers(given))
        low, high = self._square(packed)
        inner = triangular_solved(low, change, unit=True)
        inner = triangular_solved(high, inner, left=False, lower=False)
        below, within = (each(lambda x: build.apply1("tril", x, k=-1), x) for x in (low, inner))
        by_low = numbers.add(numbers.product(below, within), within)
        within, above = (each(lambda x: build.apply1("triu", x), x) for x in (inner, high))
        by_high = numbers.product(within, above)
        return [self.node(numbers.add(by_low, by_high)), None, None]

    def _square(self, packed: Numbers) -> tuple[Numbers, Numbers]:
        """Packs L, without its diagonal, and U into the lower and upper triangle of square
        matrices.
        """
        type_ = packed[0].type
        rows, columns = check_matrix(self.mnemonic, type_)
        rank = type_.rank
        if rows == columns:
            return packed, packed
        if rows < columns:
            low = numbers.cut(packed, rank - 1, 0, rows)
            wide = type_.with_shape((*type_.shape[:-2], columns - rows, columns))
            others = numbers.real(self._shifted(wide, rows), packed)
            return low, numbers.concat([packed, others], rank - 2)
        high = numbers.cut(packed, rank - 2, 0, columns)
        zeros = build.full(0.0, (*type_.shape[:-1], rows - columns), type_.dtype)
        return numbers.concat([packed, numbers.real(zeros, packed)], rank - 1), high

    def _shifted(self, like: Type, first: int) -> Node:
        """Rows of the identity matrix from row `first` on."""
        row = build.add(build.iota(like.shape, like.rank - 2), first)
        one = build.compare(row, "eq", build.iota(like.shape, like.rank - 1))
        return build.cast(one, like.dtype)

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        (a,) = inputs
        if self.complex:
            packed, pivots, order = systems.lu(self.numbers(a))
            return self.node(packed), pivots, order
        return factored(a)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        packed = np.array(self.array(arrays[0]))
        *batch, rows, columns = packed.shape
        pivots = np.zeros((*batch, min(rows, columns)), np.int32)
        order = np.broadcast_to(np.arange(rows, dtype=np.int32), (*batch, rows)).copy()
        for at in np.ndindex(*batch):
            _eliminate(packed[at], pivots[at], order[at])
        return self.pairs(packed, arrays[0]), pivots, order

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        shapes: list[Ints] = [
            (4, 4), (1, 1), (3, 5), (5, 3), (2, 3, 3), (0, 3, 3), (2, 0, 0), (0, 2), (3, 0),
            (2, 2, 4, 2),
        ]  # fmt: skip
        single = [Sample((Type(DType.F32, s),), {}) for s in shapes]
        pairs = [
            Sample((Type(DType.F32, (*s, 2)),), {"complex": True})
            for s in ((3, 3), (2, 2, 3), (3, 1))
        ]
        return [*single, Sample((Type(DType.F64, (6, 6)),), {}), *pairs]


def _eliminate(a: Array, pivots: Array, order: Array) -> None:
    """Replaces a matrix by its factors, in place."""
    for k in range(len(pivots)):
        sizes = np.abs(a[k:, k].real) + np.abs(a[k:, k].imag)
        pivots[k] = pivot = k + int(np.argmax(sizes))
        a[[k, pivot]] = a[[pivot, k]]
        order[[k, pivot]] = order[[pivot, k]]
        if a[k, k] != 0:
            a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])


def factored(a: Node) -> tuple[Node, Node, Node]:
    """The factors, by recursive blocks: factor the first columns, apply their row exchanges and
    product to the rest, factor the rest.
    """
    rows, columns = check_matrix("lu", a.type)
    rank = a.type.rank
    k = rows if rows < columns else first_block(columns, COLUMNS)
    if k == columns:
        return column_by_column(a)
    left, pivots, order = _factors(build.cut(a, rank - 1, 0, k))
    right = gathered(build.cut(a, rank - 1, k, columns), order)
    square, beside = (build.cut(x, rank - 2, 0, k) for x in (left, right))
    top = build.apply1("triangular_solve", square, beside, unit=True)
    above = build.concat([square, top], rank - 1)
    if k == rows:
        return above, pivots, order
    below = build.cut(left, rank - 2, k, rows)
    rest = build.sub(build.cut(right, rank - 2, k, rows), product(below, top))
    packed, others, inner = _factors(rest)
    packed = build.concat([gathered(below, inner), packed], rank - 1)
    kept, moved = (build.cut(order, rank - 2, *ends) for ends in ((0, k), (k, rows)))
    moved = build.apply1("take_along_axis", moved, inner, axis=rank - 2)
    return (
        build.concat([above, packed], rank - 2),
        build.concat([pivots, build.add(others, k)], rank - 2),
        build.concat([kept, moved], rank - 2),
    )


def _factors(a: Node) -> tuple[Node, Node, Node]:
    """The results of the operation, which targets may compute whole."""
    node = Node.of(Lu(), a)
    return pick(node, 0), pick(node, 1), pick(node, 2)


def column_by_column(a: Node) -> tuple[Node, Node, Node]:
    """The factors, column by column: each step exchanges two rows, divides a column and subtracts
    an outer product.
    """
    rows, columns = check_matrix("lu", a.type)
    rank, batch, steps = a.type.rank, a.shape[:-2], min(rows, columns)
    order = build.iota((*batch, rows), rank - 2, DType.I32)
    if not steps:
        return a, build.full(0, (*batch, 0), DType.I32), order

    def step(a: Node, order: Node, number: Node) -> list[Node]:
        column = entry(a, rank - 1, number)  # (…, m)
        count = build.iota(column.shape, rank - 2)
        left = build.select(build.compare(count, "ge", number), build.apply1("abs", column), -1.0)
        pivot = build.apply1("argmax", left, axis=rank - 2, keepdims=True, dtype=DType.I32)
        here, there = build.compare(count, "eq", number), build.compare(count, "eq", pivot)
        first = build.back(entry(a, rank - 2, number), (*batch, 1, columns), (rank - 2,))
        second = gathered(a, pivot)  # the pivot row, (…, 1, n)
        exchanged = build.select(_down(here, a), second, build.select(_down(there, a), first, a))
        divisor = entry(second, rank - 1, number)  # (…, 1)
        divisor = build.select(build.compare(divisor, "eq", 0.0), 1.0, divisor)
        factor = build.select(there, entry(first, rank - 1, number), column)
        wide = _down(build.div(factor, divisor), a)
        place = build.iota(a.shape, rank - 1)
        rest = build.sub(exchanged, build.mul(wide, second))
        rest = build.select(build.compare(place, "gt", number), rest, exchanged)
        rest = build.select(build.compare(place, "eq", number), wide, rest)
        below = _down(build.compare(count, "gt", number), a)
        old = build.reshape(entry(order, rank - 2, number), (*batch, 1))
        new = build.apply1("take_along_axis", order, pivot, axis=rank - 2)
        rows = build.select(here, new, build.select(there, old, order))
        return [build.select(below, rest, exchanged), rows, build.reshape(pivot, batch)]

    results = over(steps, step, (a, order), ())
    pivots = build.transpose(pick(results, 2), [*range(1, rank - 1), 0])
    return pick(results, 0), pivots, pick(results, 1)


def permutation_of(pivots: Node, rows: Dim) -> Node:
    """The permutation (…, m), i32, of `rows` rows that results from exchanging row k with row
    pivots[k], counted from 0: (…, k).
    """
    rank, batch, count = pivots.type.rank, pivots.shape[:-1], pivots.shape[-1]
    first = build.iota((*batch, rows), rank - 1, DType.I32)
    assert isinstance(count, int)

    def step(order: Node, number: Node, pivots: Node) -> Node:
        place = build.reshape(entry(pivots, rank - 1, number), (*batch, 1))
        line = build.iota(order.shape, rank - 1)
        here, there = build.compare(line, "eq", number), build.compare(line, "eq", place)
        old = build.reshape(entry(order, rank - 1, number), (*batch, 1))
        new = build.apply1("take_along_axis", order, place, axis=rank - 1)
        return build.select(here, new, build.select(there, old, order))

    return over(count, step, (first,), (pivots,)) if count else first


def _down(column: Node, a: Node) -> Node:
    """Columns (…, m), broadcast along the rows of matrices like a."""
    return build.back(column, a.shape, (a.type.rank - 1,))
