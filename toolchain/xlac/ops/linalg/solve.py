"""Linear systems."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ir.composite import Composite
from xlac.ir.graph import Node
from xlac.ir.op import Sample, declare
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.linalg.matrices import check_right_side, check_square, product
from xlac_sdk.dtypes import DType


@declare
class Solve(Composite):
    """The X for which a X = b, by elimination with partial pivoting: a is (…, n, n), b (…, n, m).

    The residual |a X - b| is below 6 n eps |L| |U| |X|, element by element, with the factors of
    `lu`; the error of X is that times the condition of a. Where a is singular there are infinities
    and NaNs.
    """

    mnemonic = "solve"
    operands = ("a", "b")
    leading = {}

    def infer(self, *types: Type) -> Type:
        a, b = types
        check_square(self.mnemonic, a)
        check_right_side(self.mnemonic, a, b)
        return b

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """a dX = db - da X, solved with the same factors."""
        by_a, total = tangents
        if by_a is not None:
            part = product(by_a, node)
            total = build.apply1("neg", part) if total is None else build.sub(total, part)
        assert total is not None
        return [with_factors(node.inputs[0], total)]

    def expand(self, *inputs: Node) -> Node:
        return with_factors(*inputs)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        shapes = ((4, 4), (1, 1), (2, 3, 3), (0, 2, 2), (0, 0), (2, 2))
        samples = [
            _case(shape, columns, DType.F32)
            for shape, columns in zip(shapes, (2, 3, 1, 2, 2, 0), strict=True)
        ]
        return [*samples, _case((5, 5), 2, DType.F64)]


def _case(shape: tuple[int, ...], columns: int, dtype: DType) -> Sample:
    return Sample((Type(dtype, shape), Type(dtype, (*shape[:-1], columns))), {})


def with_factors(a: Node, b: Node) -> Node:
    """The solution of a X = b by the factors of a."""
    packed, _, permutation = factors(a)
    return build.apply1("lu_solve", packed, permutation, b)


def factors(a: Node) -> tuple[Node, ...]:
    """The results of `lu`."""
    results = build.apply("lu", a)
    assert isinstance(results, tuple)
    return results
