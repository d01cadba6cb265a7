"""Linear systems."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ir.graph import Node
from xlac.ir.op import Sample, declare
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.complex.linalg.numbers import product
from xlac.ops.linalg.matrices import check_right_side, check_square
from xlac.ops.linalg.matrix_operation import MatrixOperation
from xlac_sdk.dtypes import DType


@declare
class Solve(MatrixOperation):
    """The X for which a X = b, by elimination with partial pivoting: a is (…, n, n), b (…, n, m).

    The residual |a X - b| is below 6 n eps |L| |U| |X|, element by element, with the factors of
    `lu`; the error of X is that times the condition of a. Where a is singular there are infinities
    and NaNs. With `complex`, a and b have a last axis of 2 more.
    """

    mnemonic = "solve"
    operands = ("a", "b")

    def infer(self, *types: Type) -> Type:
        a, b = (self.part(t, n) for n, t in enumerate(types))
        check_square(self.mnemonic, a)
        check_right_side(self.mnemonic, a, b)
        return types[1]

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """a dX = db - da X, solved with the same factors."""
        by_a, total = tangents
        if by_a is not None:
            part = self.node(product(self.numbers(by_a), self.numbers(node)))
            total = build.apply1("neg", part) if total is None else build.sub(total, part)
        assert total is not None
        return [with_factors(node.inputs[0], total, self.complex)]

    def expand(self, *inputs: Node) -> Node:
        a, b = inputs
        return with_factors(a, b, self.complex)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        shapes = ((4, 4), (1, 1), (2, 3, 3), (0, 2, 2), (0, 0), (2, 2))
        samples = [
            _case(shape, columns, DType.F32)
            for shape, columns in zip(shapes, (2, 3, 1, 2, 2, 0), strict=True)
        ]
        pairs = Sample((Type(DType.F32, (3, 3, 2)), Type(DType.F32, (3, 1, 2))), {"complex": True})
        return [*samples, _case((5, 5), 2, DType.F64), pairs]


def _case(shape: tuple[int, ...], columns: int, dtype: DType) -> Sample:
    return Sample((Type(dtype, shape), Type(dtype, (*shape[:-1], columns))), {})


def with_factors(a: Node, b: Node, complex: bool = False) -> Node:
    """The solution of a X = b by the factors of a."""
    packed, _, permutation = factors(a, complex)
    return build.apply1("lu_solve", packed, permutation, b, complex=complex)


def factors(a: Node, complex: bool = False) -> tuple[Node, ...]:
    """The results of `lu`."""
    results = build.apply("lu", a, complex=complex)
    assert isinstance(results, tuple)
    return results
