"""The solution of triangular systems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xlac.ir.graph import Node
from xlac.ir.op import Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import check_one_dtype
from xlac.ops.complex.linalg import systems
from xlac.ops.complex.linalg.numbers import Numbers, conjugate, each, product
from xlac.ops.linalg import matrices
from xlac.ops.linalg.matrices import (
    Ints,
    check_square,
    entry,
    first_block,
    over,
    part,
    swapped,
    written,
)
from xlac.ops.linalg.matrix_operation import MatrixOperation
from xlac_sdk.dtypes import DType

ROWS = 16  # rows of a block, solved one by one


@declare
class TriangularSolve(MatrixOperation):
    """The X for which a X = b, or X a = b when `left` is false, for triangular matrices a.

    Only the `lower` (or upper) triangle of a is read; `unit` takes its diagonal as 1; `transpose`
    solves with the transposed matrix. a is (…, n, n), b (…, n, m), or (…, m, n) when `left` is
    false; with `complex` both have a last axis of 2 more. The residual |a X - b| is below 2 n eps
    |a| |X|, element by element.
    """

    mnemonic = "triangular_solve"
    operands = ("a", "b")
    left: bool = True
    lower: bool = True
    unit: bool = False
    transpose: bool = False

    def infer(self, *types: Type) -> Type:
        a, b = (self.part(t, n) for n, t in enumerate(types))
        size = check_square(self.mnemonic, a)
        check_one_dtype(self.mnemonic, types)
        if (
            b.rank != a.rank
            or b.shape[:-2] != a.shape[:-2]
            or b.shape[-2 if self.left else -1] != size
        ):
            raise ShapeError(f"{self.mnemonic}: {types[1]} does not fit {types[0]}", operand=1)
        return types[1]

    def linear(self) -> Sequence[Sequence[str]]:
        return (("b",),)

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """Of a X = b: a dX = db - da X, with the triangle of da."""
        a = node.inputs[0]
        by_a, total = tangents
        if by_a is not None:
            name, k = ("tril", -1) if self.lower else ("triu", 1)
            x, k = self.numbers(node), k if self.unit else 0
            change = each(lambda d: build.apply1(name, d, k=k), self.numbers(by_a))
            change = each(swapped, change) if self.transpose else change
            part = self.node(product(change, x) if self.left else product(x, change))
            total = build.apply1("neg", part) if total is None else build.sub(total, part)
        return [None if total is None else Node.of(self, a, total)]

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        (cotangent,) = cotangents
        assert cotangent is not None
        other, a = replace(self, transpose=not self.transpose), node.inputs[0]
        a = self.node(conjugate(self.numbers(a))) if self.complex else a
        return [None, Node.of(other, a, cotangent)]

    def expand(self, *inputs: Node) -> Node:
        a, b = inputs
        if self.complex:
            return self.node(self._solved(self.numbers(a), self.numbers(b)))
        if not self.left:  # X a = b is a' X' = b'
            turned = replace(self, left=True, transpose=not self.transpose)
            return swapped(Node.of(turned, a, swapped(b)))
        if self.transpose:
            turned = replace(self, transpose=False, lower=not self.lower)
            return Node.of(turned, swapped(a), b)
        return solved(a, b, self.lower, self.unit)

    def _solved(self, a: Numbers, b: Numbers) -> Numbers:
        lower = self.lower
        if self.transpose:
            a, lower = each(swapped, a), not lower
        return systems.triangular_solve(
            a, b, left=self.left, lower=lower, unit=self.unit, of_real=solved
        )

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def case(a: Ints, b: Ints, dtype: DType = DType.F32, /, **given: bool) -> Sample:
            return Sample((Type(dtype, a), Type(dtype, b)), given, ("positive", "normal"))

        flags = [
            {"left": n & 1 > 0, "lower": n & 2 > 0, "unit": n & 4 > 0, "transpose": n & 8 > 0}
            for n in (0, 1, 2, 3, 9, 11, 3 + 8)
        ]
        samples = [case((3, 3), (3, 2) if g["left"] else (2, 3), **g) for g in flags]
        return [
            *samples,
            case((2, 3, 3), (2, 3, 1)),
            case((1, 1), (1, 4)),
            case((0, 2, 2), (0, 2, 3)),
            case((0, 0), (0, 3)),
            case((2, 2), (2, 0)),
            case((3, 3), (3, 2), DType.F64),
            case((3, 3, 2), (3, 2, 2), complex=True),
            case((2, 2, 2, 2), (2, 1, 2, 2), left=False, transpose=True, complex=True),
        ]


def solved(a: Node, b: Node, lower: bool, unit: bool) -> Node:
    """The solution of a X = b, by recursive blocks: solve for the first block of X, subtract its
    product from the rest of b, solve for the rest; for upper matrices, in reverse.
    """
    rank, size = a.type.rank, check_square("triangular_solve", a.type)
    k = first_block(size, ROWS)
    if k == size:
        return row_by_row(a, b, lower, unit)
    ends = (0, k), (k, size)
    first, second = ends if lower else ends[::-1]
    op = TriangularSolve(lower=lower, unit=unit)
    upper = Node.of(op, part(a, first, first), build.cut(b, rank - 2, *first))
    rest = build.sub(
        build.cut(b, rank - 2, *second), matrices.product(part(a, second, first), upper)
    )
    other = Node.of(op, part(a, second, second), rest)
    return build.concat([upper, other] if lower else [other, upper], rank - 2)


def row_by_row(a: Node, b: Node, lower: bool, unit: bool) -> Node:
    """The solution of a X = b, row by row."""
    rank = a.type.rank
    size = check_square("triangular_solve", a.type)
    if not size:
        return b
    batch = tuple(range(rank - 2))

    def step(x: Node, number: Node, a: Node, b: Node) -> Node:
        row = entry(a, rank - 2, number)  # (…, n)
        line = build.iota((size,), 0)
        known = build.compare(line, "lt" if lower else "gt", build.broadcast_to(number, (size,)))
        used = build.select(build.broadcast_to(known, row.shape), row, 0.0)
        rest = build.sub(
            entry(b, rank - 2, number),
            build.dot(used, x, ((rank - 2,), (rank - 2,)), (batch, batch)),
        )
        if not unit:
            pivot = build.reshape(entry(row, rank - 2, number), (*row.shape[:-1], 1))
            rest = build.div(rest, pivot)
        return written(x, number, rest)

    return over(size, step, (build.like(0.0, b),), (a, b), reverse=not lower)
