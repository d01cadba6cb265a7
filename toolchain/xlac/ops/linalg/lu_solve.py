"""Linear systems with factored matrices."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ir.faults import DeclaredFault, OutOfRange
from xlac.ir.graph import Node
from xlac.ir.op import Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.complex.linalg.numbers import each
from xlac.ops.linalg.matrices import check_right_side, check_square, gathered
from xlac.ops.linalg.matrix_operation import MatrixOperation
from xlac_sdk.dtypes import DType

F32 = DType.F32


@declare
class LuSolve(MatrixOperation):
    """The X for which a X = b, or a' X = b with `transpose`, from `packed` and `permutation` of
    `lu` of square matrices a.

    b is (…, n, m); with `complex` it and `packed` have a last axis of 2 more. A 0 on the diagonal
    of U gives infinities and NaNs.
    """

    mnemonic = "lu_solve"
    operands = ("packed", "permutation", "b")
    transpose: bool = False

    def infer(self, *types: Type) -> Type:
        packed, permutation, b = self.part(types[0]), types[1], self.part(types[2], 2)
        check_square(self.mnemonic, packed)
        wanted = Type(DType.I32, packed.shape[:-1])
        if permutation != wanted:
            raise ShapeError(
                f"{self.mnemonic} of {packed} needs a permutation {wanted}, got {permutation}",
                operand=1,
            )
        check_right_side(self.mnemonic, packed, b, 2)
        return types[2]

    def expand(self, *inputs: Node) -> Node:
        packed, permutation, b = inputs

        def solved(b: Node, **attributes: bool) -> Node:
            return build.apply1("triangular_solve", packed, b, complex=self.complex, **attributes)

        def rows(b: Node, order: Node) -> Node:
            return self.node(each(lambda x: gathered(x, order), self.numbers(b)))

        if not self.transpose:
            return solved(solved(rows(b, permutation), unit=True), lower=False)
        half = solved(b, lower=False, transpose=True)
        found = solved(half, unit=True, transpose=True)
        return rows(found, build.apply1("argsort", permutation, axis=-1))

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        _, permutation, _ = inputs
        return (OutOfRange(permutation, (permutation.shape[-1],), what="row {value}"),)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def case(*batch: int, n: int, m: int, way: bool = False, dtype: DType = F32) -> Sample:
            packed, rows = Type(dtype, (*batch, n, n)), Type(DType.I32, (*batch, n))
            types = packed, rows, Type(dtype, (*batch, n, m))
            return Sample(types, {"transpose": way}, ("positive", "small", "normal"))

        return [
            case(n=1, m=3),
            case(2, n=1, m=2, way=True),
            case(0, n=3, m=1),
            case(n=0, m=2),
            case(n=1, m=0),
            case(n=1, m=2, dtype=DType.F64),
            Sample(
                (Type(F32, (1, 1, 2)), Type(DType.I32, (1,)), Type(F32, (1, 2, 2))),
                {"complex": True},
                ("positive", "small", "normal"),
            ),
        ]
