"""Determinants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.graph import Node
from xlac.ir.op import Array, Sample, declare
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.linalg.lu import Lu
from xlac.ops.linalg.matrices import check_square, diagonal, gathered
from xlac.ops.linalg.solve import factors
from xlac_sdk.dtypes import DType

SHAPES = ((4, 4), (1, 1), (2, 3, 3), (0, 2, 2), (0, 0), (2, 0, 0), (2, 2, 2, 2))


@declare
class Det(Composite):
    """The determinant of square matrices (…, n, n): (…), and 1 where n is 0.

    It is that of a matrix within 2 n eps |L| |U| of a, with the factors of `lu`. The derivative
    holds for singular matrices too where only the last number on U's diagonal is 0, and is NaN or
    infinite where others are.
    """

    mnemonic = "det"
    operands = ("a",)
    leading = {}

    def infer(self, *types: Type) -> Type:
        (a,) = types
        check_square(self.mnemonic, a)
        return a.with_shape(a.shape[:-2])

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """det(a) times the trace of L⁻¹ P da U⁻¹. The last diagonal entry of that is not divided by
        the last pivot, which cancels with a factor of det(a).
        """
        (change,) = tangents
        a = node.inputs[0]
        size, rank = check_square(self.mnemonic, a.type), a.type.rank
        if change is None or not size:
            return [None]
        packed, pivots, permutation = factors(a)
        last = build.compare(build.iota(a.shape[:-1], rank - 2), "eq", size - 1)
        kept = build.select(last, 1.0, diagonal(packed))
        before = build.mul(parity(pivots), build.reduce(kept, "mul", rank - 2))
        corner = build.apply1(
            "and", build.back(last, a.shape, (rank - 1,)), build.back(last, a.shape, (rank - 2,))
        )
        traced = quotients(build.select(corner, 1.0, packed), permutation, change)
        ends, others = (build.back(v, last.shape, (rank - 2,)) for v in (before, node))
        scaled = build.mul(traced, build.select(last, ends, others))
        return [build.reduce(scaled, "add", rank - 2)]

    def expand(self, *inputs: Node) -> Node:
        (a,) = inputs
        if not check_square(self.mnemonic, a.type):
            return build.full(1.0, a.shape[:-2], a.type.dtype)
        packed, pivots, _ = factors(a)
        return build.mul(parity(pivots), build.reduce(diagonal(packed), "mul", a.type.rank - 2))

    def evaluate(self, *arrays: Array) -> Array:
        along, sign = diagonal_of(arrays[0])
        return np.asarray(sign * np.prod(along, -1), arrays[0].dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        samples = [Sample((Type(DType.F32, s),), {}) for s in SHAPES]
        return [*samples, Sample((Type(DType.F64, (5, 5)),), {})]


def parity(pivots: Node) -> Node:
    """1 for an even number of exchanges, -1 for an odd one, in float type."""
    rank = pivots.type.rank
    moved = build.compare(pivots, "ne", build.iota(pivots.shape, rank - 1, DType.I32))
    count = build.reduce(build.cast(moved, DType.I32), "add", rank - 1)
    return build.select(build.compare(build.apply1("and", count, 1), "eq", 0), 1.0, -1.0)


def diagonal_of(a: Array) -> tuple[Array, Array]:
    """U's diagonal of square matrices, and the sign of the permutation of rows, 1 or -1."""
    packed, pivots, _ = Lu().evaluate(a)
    moved = np.sum(pivots != np.arange(pivots.shape[-1]), -1)
    return np.diagonal(packed, axis1=-2, axis2=-1), np.where(moved % 2, -1.0, 1.0)


def quotients(packed: Node, permutation: Node, change: Node) -> Node:
    """The diagonal of L⁻¹ P da U⁻¹."""
    inner = build.apply1("triangular_solve", packed, gathered(change, permutation), unit=True)
    return diagonal(build.apply1("triangular_solve", packed, inner, left=False, lower=False))
