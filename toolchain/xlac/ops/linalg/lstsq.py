"""Pseudo-inverses, and the least squares that they solve."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import Array, Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import check_one_dtype
from xlac.ops.complex.linalg.numbers import Numbers, add, adjoint, product, scaled, sub
from xlac.ops.linalg.matrices import check_matrix, epsilon
from xlac.ops.linalg.matrix_operation import MatrixOperation
from xlac.ops.linalg.svd import Svd
from xlac_sdk.dtypes import DType


@declare
class Lstsq(MatrixOperation):
    """The X for which |a X - b| is least, and of several the one of least norm: a is (…, m, n), b
    (…, m, k), X (…, n, k).

    By the singular values of a, of which those of at most `rcond` times the largest count as 0
    (-1: max(m, n) eps). The derivative is that of an a whose rank stays. With `complex`, all have a
    last axis of 2.
    """

    mnemonic = "lstsq"
    operands = ("a", "b")
    rcond: float = -1.0

    def infer(self, *types: Type) -> Type:
        a, b = (self.part(t, n) for n, t in enumerate(types))
        rows, columns = check_matrix(self.mnemonic, a)
        check_one_dtype(self.mnemonic, types)
        if b.rank != a.rank or b.shape[:-1] != (*a.shape[:-2], rows):
            raise ShapeError(f"{self.mnemonic}: {types[1]} does not fit {types[0]}", operand=1)
        return self.paired(b.with_shape((*b.shape[:-2], columns, b.shape[-1])))

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """With P, the pseudo-inverse of a, and r = b - a X: P (db - da X) + P P' da' r +
        (I - P a) da' P' X.
        """
        (a, b), x = map(self.numbers, node.inputs), self.numbers(node)
        by_a, by_b = (None if t is None else self.numbers(t) for t in tangents)
        inverse = self.numbers(Node.of(Pinv(self.rcond, complex=self.complex), node.inputs[0]))
        total = None if by_b is None else product(inverse, by_b)
        if by_a is not None:
            first = product(inverse, product(by_a, x))
            rest = sub(b, product(a, x))
            second = product(adjoint(by_a), rest)
            second = product(inverse, product(adjoint(inverse), second))
            third = product(adjoint(by_a), product(adjoint(inverse), x))
            third = sub(third, product(inverse, product(a, third)))
            found = sub(add(second, third), first)
            total = found if total is None else add(total, found)
        return [None if total is None else self.node(total)]

    def expand(self, *inputs: Node) -> Node:
        a, b = inputs
        left, scale, right = _factors(self, a)
        return self.node(product(right, scaled(product(left, self.numbers(b)), scale)))

    def evaluate(self, *arrays: Array) -> Array:
        a, b = map(self.array, arrays)
        return self.pairs(np.linalg.pinv(a, _limit(self, a.shape, arrays[0].dtype)) @ b, arrays[0])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases = [((3, 3), (3, 2)), ((4, 2), (4, 1)), ((2, 2, 3), (2, 2, 1)), ((0, 2, 2), (0, 2, 1))]
        single = [Sample((Type(DType.F32, a), Type(DType.F32, b)), {}) for a, b in cases]
        pairs = Type(DType.F32, (3, 2, 2)), Type(DType.F32, (3, 1, 2))
        wide = Type(DType.F64, (4, 3)), Type(DType.F64, (4, 2))
        return [*single, Sample(wide, {}), Sample(pairs, {"complex": True})]


@declare
class Pinv(MatrixOperation):
    """The pseudo-inverse of matrices (…, m, n), by singular values: (…, n, m).

    Singular values of at most `rcond` times the largest count as 0 (-1: max(m, n) eps). The
    derivative is that of an a whose rank stays. With `complex`, all have a last axis of 2.
    """

    mnemonic = "pinv"
    operands = ("a",)
    rcond: float = -1.0

    def infer(self, *types: Type) -> Type:
        a = self.part(types[0])
        rows, columns = check_matrix(self.mnemonic, a)
        return self.paired(a.with_shape((*a.shape[:-2], columns, rows)))

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """-P da P + P P' da' (I - a P) + (I - P a) da' P' P."""
        (given,) = tangents
        assert given is not None
        a, change, p = map(self.numbers, (node.inputs[0], given, node))
        turned, other = adjoint(change), adjoint(p)
        second = product(product(p, other), turned)
        second = sub(second, product(product(second, a), p))
        third = product(turned, product(other, p))
        third = sub(third, product(p, product(a, third)))
        return [self.node(sub(add(second, third), product(product(p, change), p)))]

    def expand(self, *inputs: Node) -> Node:
        left, scale, right = _factors(self, inputs[0])
        return self.node(product(right, scaled(left, scale)))

    def evaluate(self, *arrays: Array) -> Array:
        a = self.array(arrays[0])
        return self.pairs(np.linalg.pinv(a, _limit(self, a.shape, arrays[0].dtype)), arrays[0])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        single = [Sample((Type(DType.F32, s),), {}) for s in ((3, 3), (4, 2), (2, 2, 3), (0, 2, 2))]
        pairs = Sample((Type(DType.F32, (3, 2, 2)),), {"complex": True})
        return [*single, Sample((Type(DType.F64, (4, 3)),), {}), pairs]


def _limit(op: Lstsq | Pinv, shape: Sequence[Dim], dtype: object) -> float:
    """The part of the largest singular value that counts as 0."""
    if op.rcond >= 0:
        return op.rcond
    rows, columns = shape[-2:]
    assert isinstance(rows, int) and isinstance(columns, int)
    return max(rows, columns) * epsilon(DType.of(dtype))


def _factors(op: Lstsq | Pinv, a: Node) -> tuple[Numbers, Node, Numbers]:
    """U', the inverses (…, k, 1) of singular values, 0 where they count as 0, and V."""
    left, values, right = build.results(Node.of(Svd(False, complex=op.complex), a))
    shape = op.part(a.type).shape
    axis = values.type.rank - 1
    if values.shape[-1] == 0:
        inverse = values
    else:
        most = build.reduce(values, "max", axis, keepdims=True)
        least = build.mul(most, _limit(op, shape, a.type.dtype.numpy))
        kept = build.compare(values, "gt", build.broadcast_to(least, values.shape))
        inverse = build.select(kept, build.div(1.0, build.select(kept, values, 1.0)), 0.0)
    wide = build.reshape(inverse, (*inverse.shape, 1))
    return adjoint(op.numbers(left)), wide, adjoint(op.numbers(right))
