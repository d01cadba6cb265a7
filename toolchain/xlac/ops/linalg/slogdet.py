"""Logarithms of determinants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.graph import Node
from xlac.ir.op import Array, Sample, declare
from xlac.ir.types import Type, Types
from xlac.ops import build
from xlac.ops.linalg.det import SHAPES, diagonal_of, parity, quotients
from xlac.ops.linalg.matrices import check_square, diagonal
from xlac.ops.linalg.solve import factors
from xlac_sdk.dtypes import DType


@declare
class Slogdet(Composite):
    """The determinant of square matrices as (its sign, the logarithm of its absolute value).

    It neither overflows nor underflows. Matrices are (…, n, n), both results (…). The sign is 1,
    -1, or 0 where a is singular, with the logarithm -infinity; of matrices of size 0 they are 1 and
    0.
    """

    mnemonic = "slogdet"
    operands = ("a",)
    leading = {}

    def infer(self, *types: Type) -> Types:
        (a,) = types
        check_square(self.mnemonic, a)
        return (a.with_shape(a.shape[:-2]),) * 2

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """The trace of a⁻¹ da; the sign does not change."""
        (change,) = tangents
        assert change is not None
        packed, _, permutation = factors(node.inputs[0])
        traced = quotients(packed, permutation, change)
        return [None, build.reduce(traced, "add", traced.type.rank - 1)]

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        (a,) = inputs
        packed, pivots, _ = factors(a)
        along, rank = diagonal(packed), a.type.rank
        sign = build.reduce(build.apply1("sign", along), "mul", rank - 2)
        size = build.log(build.apply1("abs", along))
        parted = build.cast(parity(pivots), a.type.dtype)
        return build.mul(parted, sign), build.reduce(size, "add", rank - 2)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        along, sign = diagonal_of(arrays[0])
        with np.errstate(divide="ignore"):
            size = np.sum(np.log(np.abs(along)), -1)
        sign = sign * np.prod(np.sign(along), -1)
        return np.asarray(sign, along.dtype), np.asarray(size, along.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        samples = [Sample((Type(DType.F32, s),), {}) for s in SHAPES]
        return [*samples, Sample((Type(DType.F64, (5, 5)),), {})]
