"""Logarithms of determinants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.graph import Node, pick
from xlac.ir.op import Array, Sample, declare
from xlac.ir.types import Type, Types
from xlac.ops import build
from xlac.ops.complex import arithmetic
from xlac.ops.complex.linalg.numbers import Numbers, diagonal, each, mul, rank, scaled, summed
from xlac.ops.complex.parts import hypot
from xlac.ops.linalg.det import PAIRS, SHAPES, diagonal_of, lu_parts, parity, product_of, quotients
from xlac.ops.linalg.matrices import check_square
from xlac.ops.linalg.matrix_operation import MatrixOperation
from xlac_sdk.dtypes import DType


@declare
class Slogdet(MatrixOperation):
    """The determinant of square matrices as (its sign, the logarithm of its absolute value).

    It neither overflows nor underflows. Matrices are (…, n, n), both results (…). The sign is 1,
    -1, or 0 where a is singular, with the logarithm -infinity; of matrices of size 0 they are 1 and
    0. With `complex`, a and the sign, a number of magnitude 1, have a last axis of 2 more.
    """

    mnemonic = "slogdet"
    operands = ("a",)

    def infer(self, *types: Type) -> Types:
        a = self.part(types[0])
        check_square(self.mnemonic, a)
        result = a.with_shape(a.shape[:-2])
        return self.paired(result), result

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """The trace of a⁻¹ da, and the sign times the imaginary part of that; real signs do not
        change.
        """
        (change,) = tangents
        assert change is not None
        packed, _, permutation = lu_parts(self, node.inputs[0])
        traced = quotients(packed, permutation, self.numbers(change))
        size, *turn = summed(traced, rank(traced) - 1)
        if not turn:
            return [None, size]
        sign = self.numbers(pick(node, 0))
        return [self.node(mul(sign, (build.like(0.0, size), turn[0]))), size]

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        (a,) = inputs
        packed, pivots, _ = lu_parts(self, a)
        along = diagonal(packed)
        if self.complex:
            signs: Numbers = arithmetic.sign((along[0], along[1]))
            sizes = hypot(*along)
        else:
            signs, sizes = (
                each(lambda x: build.apply1("sign", x), along),
                build.apply1("abs", *along),
            )
        parted = build.cast(parity(pivots), a.type.dtype)
        size = build.reduce(build.log(sizes), "add", rank(along) - 1)
        return self.node(scaled(product_of(signs), parted)), size

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        along, parted = diagonal_of(self, arrays[0])
        sizes = np.abs(along)
        with np.errstate(divide="ignore"):
            size = np.sum(np.log(sizes), -1)
        sign = parted * np.prod(along / np.where(sizes == 0, 1.0, sizes), -1)
        return self.pairs(sign, arrays[0]), np.asarray(size, arrays[0].dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        samples = [Sample((Type(DType.F32, s),), {}) for s in SHAPES]
        return [*samples, Sample((Type(DType.F64, (5, 5)),), {}), *PAIRS]
