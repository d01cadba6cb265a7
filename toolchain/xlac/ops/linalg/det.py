"""Determinants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.graph import Node
from xlac.ir.op import Array, Sample, declare
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.complex.linalg.numbers import (
    Numbers,
    back,
    diagonal,
    each,
    mul,
    multiplied,
    rank,
    real,
    scaled,
    select,
    summed,
)
from xlac.ops.linalg.lu import Lu
from xlac.ops.linalg.matrices import check_square, gathered
from xlac.ops.linalg.matrix_operation import MatrixOperation, triangular_solved
from xlac.ops.linalg.solve import factors
from xlac_sdk.dtypes import DType

SHAPES = ((4, 4), (1, 1), (2, 3, 3), (0, 2, 2), (0, 0), (2, 0, 0), (2, 2, 2, 2))
PAIRS = [Sample((Type(DType.F32, s),), {"complex": True}) for s in ((2, 3, 3, 2), (0, 0, 2))]


def lu_parts(op: MatrixOperation, a: Node) -> tuple[Numbers, Node, Node]:
    """The results of `lu`, of which the first is the numbers of the packed factors."""
    packed, pivots, permutation = factors(a, op.complex)
    return op.numbers(packed), pivots, permutation


def product_of(x: Numbers) -> Numbers:
    """The product of numbers along the last axis, which is removed."""
    if len(x) == 1:
        return (build.reduce(x[0], "mul", rank(x) - 1),)
    return each(lambda p: build.reshape(p, p.shape[:-1]), multiplied(x, rank(x) - 1))


@declare
class Det(MatrixOperation):
    """The determinant of square matrices (…, n, n): (…), and 1 where n is 0.

    It is that of a matrix within 2 n eps |L| |U| of a, with the factors of `lu`. The derivative
    holds for singular matrices too where only the last number on U's diagonal is 0, and is NaN or
    infinite where others are. With `complex`, a and the result have a last axis of 2 more.
    """

    mnemonic = "det"
    operands = ("a",)

    def infer(self, *types: Type) -> Type:
        a = self.part(types[0])
        check_square(self.mnemonic, a)
        return self.paired(a.with_shape(a.shape[:-2]))

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """det(a) times the trace of L⁻¹ P da U⁻¹. The last diagonal entry of that is not divided by
        the last pivot, which cancels with a factor of det(a).
        """
        (change,) = tangents
        part = self.part(node.inputs[0].type)
        size, last_axis, shape = check_square(self.mnemonic, part), part.rank - 2, part.shape
        if change is None or not size:
            return [None]
        packed, pivots, permutation = lu_parts(self, node.inputs[0])
        last = build.compare(build.iota(shape[:-1], last_axis), "eq", size - 1)
        down = diagonal(packed)
        kept = select(last, real(1.0, down), down)
        before = scaled(product_of(kept), parity(pivots))
        corner = build.apply1(
            "and", build.back(last, shape, (last_axis + 1,)), build.back(last, shape, (last_axis,))
        )
        filled = select(corner, real(1.0, packed), packed)
        traced = quotients(filled, permutation, self.numbers(change))
        ends, others = (back(v, last.shape, (last_axis,)) for v in (before, self.numbers(node)))
        return [self.node(summed(mul(traced, select(last, ends, others)), last_axis))]

    def expand(self, *inputs: Node) -> Node:
        packed, pivots, _ = lu_parts(self, inputs[0])
        return self.node(scaled(product_of(diagonal(packed)), parity(pivots)))

    def evaluate(self, *arrays: Array) -> Array:
        along, sign = diagonal_of(self, arrays[0])
        return self.pairs(sign * np.prod(along, -1), arrays[0])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        samples = [Sample((Type(DType.F32, s),), {}) for s in SHAPES]
        return [*samples, Sample((Type(DType.F64, (5, 5)),), {}), *PAIRS]


def parity(pivots: Node) -> Node:
    """1 for an even number of exchanges, -1 for an odd one, in float type."""
    rank = pivots.type.rank
    moved = build.compare(pivots, "ne", build.iota(pivots.shape, rank - 1, DType.I32))
    count = build.reduce(build.cast(moved, DType.I32), "add", rank - 1)
    return build.select(build.compare(build.apply1("and", count, 1), "eq", 0), 1.0, -1.0)


def diagonal_of(op: MatrixOperation, a: Array) -> tuple[Array, Array]:
    """U's diagonal of square matrices, and the sign of the permutation of rows, 1 or -1."""
    packed, pivots, _ = Lu(complex=op.complex).evaluate(a)
    moved = np.sum(pivots != np.arange(pivots.shape[-1]), -1)
    down = np.diagonal(op.array(packed), axis1=-2, axis2=-1)
    return down, np.where(moved % 2, -1.0, 1.0)


def quotients(packed: Numbers, permutation: Node, change: Numbers) -> Numbers:
    """The diagonal of L⁻¹ P da U⁻¹."""
    rows = each(lambda x: gathered(x, permutation), change)
    inner = triangular_solved(packed, rows, unit=True)
    return diagonal(triangular_solved(packed, inner, left=False, lower=False))
