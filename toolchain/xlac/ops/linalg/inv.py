"""The inverse of matrices."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ir.graph import Node
from xlac.ir.op import Sample, declare
from xlac.ir.types import Type
from xlac.ops.complex.linalg.numbers import negated, product, real
from xlac.ops.linalg.matrices import check_square, identity
from xlac.ops.linalg.matrix_operation import MatrixOperation
from xlac.ops.linalg.solve import with_factors
from xlac_sdk.dtypes import DType


@declare
class Inv(MatrixOperation):
    """The inverse of square matrices (…, n, n): what `solve` gives for the identity.

    Where a is singular there are infinities and NaNs. With `complex`, a has a last axis of 2 more.
    """

    mnemonic = "inv"
    operands = ("a",)

    def infer(self, *types: Type) -> Type:
        check_square(self.mnemonic, self.part(types[0]))
        return types[0]

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """-X da X."""
        (change,) = tangents
        assert change is not None
        x = self.numbers(node)
        return [self.node(negated(product(product(x, self.numbers(change)), x)))]

    def expand(self, *inputs: Node) -> Node:
        (a,) = inputs
        eye = self.node(real(identity(self.part(a.type)), self.numbers(a)))
        return with_factors(a, eye, self.complex)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        shapes = ((4, 4), (1, 1), (2, 3, 3), (0, 2, 2), (0, 0))
        samples = [Sample((Type(DType.F32, s),), {}) for s in shapes]
        pairs = Sample((Type(DType.F32, (2, 2, 2, 2)),), {"complex": True})
        return [*samples, Sample((Type(DType.F64, (5, 5)),), {}), pairs]
