"""The triangular factor of positive definite matrices."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ir.graph import Node
from xlac.ir.op import Sample, declare
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.complex.linalg import numbers, spectra, systems
from xlac.ops.linalg.matrices import (
    COLUMNS,
    check_square,
    entry,
    first_block,
    over,
    part,
    placed,
    product,
    swapped,
)
from xlac.ops.linalg.matrix_operation import MatrixOperation, triangular_solved
from xlac_sdk.dtypes import DType

PRODUCT = 128  # rows of a product that is computed whole although only half of it is used


@declare
class Cholesky(MatrixOperation):
    """The lower triangular L with L L' = a, or with `lower: false` the upper U with U' U = a, for
    positive definite a.

    Only that triangle of a is read. Where a is not positive definite there are NaNs. The residual
    |L L' - a| is below 2 n eps |L| |L'|, element by element. With `complex`, a has a last axis of
    2, ' is the adjoint, and of the diagonal of a the real part is read.
    """

    mnemonic = "cholesky"
    operands = ("a",)
    lower: bool = True

    def infer(self, *types: Type) -> Type:
        check_square(self.mnemonic, self.part(types[0]))
        return types[0]

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """L times the lower triangle, its diagonal halved, of L⁻¹ da L⁻ᵀ, where da is the symmetric
        matrix of the triangle that is read.
        """
        (given,) = tangents
        assert given is not None
        low, change = self.numbers(node), self.numbers(given)
        if not self.lower:
            low, change = numbers.adjoint(low), numbers.adjoint(change)
        left = triangular_solved(low, spectra.hermitian(change, True))
        both = triangular_solved(numbers.adjoint(low), left, left=False, lower=False)
        moved = numbers.product(low, numbers.each(_half, both))
        return [self.node(moved if self.lower else numbers.adjoint(moved))]

    def expand(self, *inputs: Node) -> Node:
        (a,) = inputs
        if self.complex:
            return self.node(systems.cholesky(self.numbers(a), self.lower, factored))
        if not self.lower:
            return swapped(build.apply1("cholesky", swapped(a)))
        return factored(a)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        shapes = ((1, 1), (0, 2, 2), (3, 1, 1), (0, 0), (2, 0, 0))
        samples = [Sample((Type(DType.F32, s),), {}, ("positive",)) for s in shapes]
        pairs = Sample((Type(DType.F32, (2, 1, 1, 2)),), {"complex": True}, ("positive",))
        upper = Sample((Type(DType.F64, (1, 1)),), {"lower": False}, ("positive",))
        return [*samples, upper, pairs]


def _half(a: Node) -> Node:
    """The lower triangle with its diagonal halved."""
    return build.mul(build.add(build.apply1("tril", a), build.apply1("tril", a, k=-1)), 0.5)


def factored(a: Node) -> Node:
    """The lower factor, by recursive blocks: factor the first block, solve for the panel below it,
    subtract its product from the rest, factor the rest.
    """
    rank, size = a.type.rank, check_square("cholesky", a.type)
    k = first_block(size, COLUMNS)
    if k == size:
        return column_by_column(a)
    first, second = (0, k), (k, size)
    top = build.apply1("cholesky", part(a, first, first))
    turned = build.apply1("triangular_solve", top, swapped(part(a, second, first)))
    below = swapped(turned)
    rest = build.apply1("cholesky", _less_product(part(a, second, second), below, turned))
    zeros = build.full(0.0, (*a.shape[:-2], k, size - k), a.type.dtype)
    above = build.concat([top, zeros], rank - 1)
    return build.concat([above, build.concat([below, rest], rank - 1)], rank - 2)


def _less_product(a: Node, x: Node, turned: Node) -> Node:
    """a - x x', computing only blocks that touch the lower triangle."""
    rank, (size, inner) = a.type.rank, x.shape[-2:]
    assert isinstance(size, int) and isinstance(inner, int)
    k = first_block(size, PRODUCT)
    if k == size:
        return build.sub(a, product(x, turned))
    all_, first, second = (0, inner), (0, k), (k, size)
    left, right = part(x, first, all_), part(turned, all_, first)
    low, other = part(x, second, all_), part(turned, all_, second)
    top = _less_product(part(a, first, first), left, right)
    below = build.sub(part(a, second, first), product(low, right))
    rest = _less_product(part(a, second, second), low, other)
    above = build.concat([top, part(a, first, second)], rank - 1)
    return build.concat([above, build.concat([below, rest], rank - 1)], rank - 2)


def column_by_column(a: Node) -> Node:
    """The lower factor, column by column."""
    rank, size = a.type.rank, check_square("cholesky", a.type)
    batch = tuple(range(rank - 2))

    def step(low: Node, number: Node, a: Node) -> Node:
        row = entry(low, rank - 2, number)
        column = build.sub(
            entry(a, rank - 1, number),
            build.dot(low, row, ((rank - 1,), (rank - 2,)), (batch, batch)),
        )
        pivot = build.sqrt(build.reshape(entry(column, rank - 2, number), (*column.shape[:-1], 1)))
        line = build.iota((size,), 0)
        below = build.compare(line, "ge", build.broadcast_to(number, (size,)))
        kept = build.select(build.broadcast_to(below, column.shape), build.div(column, pivot), 0.0)
        return placed(low, rank - 1, number, kept)

    return over(size, step, (build.like(0.0, a),), (a,))
