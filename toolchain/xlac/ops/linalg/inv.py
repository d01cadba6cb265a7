"""The inverse of matrices."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ir.composite import Composite
from xlac.ir.graph import Node
from xlac.ir.op import Sample, declare
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.linalg.matrices import check_square, identity, product
from xlac.ops.linalg.solve import with_factors
from xlac_sdk.dtypes import DType


@declare
class Inv(Composite):
    """The inverse of square matrices (…, n, n): what `solve` gives for the identity.

    Where a is singular there are infinities and NaNs.
    """

    mnemonic = "inv"
    operands = ("a",)
    leading = {}

    def infer(self, *types: Type) -> Type:
        (a,) = types
        check_square(self.mnemonic, a)
        return a

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """-X da X."""
        (change,) = tangents
        assert change is not None
        return [build.apply1("neg", product(product(node, change), node))]

    def expand(self, *inputs: Node) -> Node:
        (a,) = inputs
        return with_factors(a, identity(a.type))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        shapes = ((4, 4), (1, 1), (2, 3, 3), (0, 2, 2), (0, 0))
        samples = [Sample((Type(DType.F32, s),), {}) for s in shapes]
        return [*samples, Sample((Type(DType.F64, (5, 5)),), {})]
