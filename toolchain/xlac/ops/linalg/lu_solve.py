"""Linear systems with factored matrices."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ir.composite import Composite
from xlac.ir.faults import DeclaredFault, OutOfRange
from xlac.ir.graph import Node
from xlac.ir.op import Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.linalg.matrices import check_right_side, check_square, gathered
from xlac_sdk.dtypes import DType

F32 = DType.F32


@declare
class LuSolve(Composite):
    """The X for which a X = b, or a' X = b with `transpose`, from `packed` and `permutation` of
    `lu` of square matrices a.

    b is (…, n, m). A 0 on the diagonal of U gives infinities and NaNs.
    """

    mnemonic = "lu_solve"
    operands = ("packed", "permutation", "b")
    leading = {}
    transpose: bool = False

    def infer(self, *types: Type) -> Type:
        packed, permutation, b = types
        check_square(self.mnemonic, packed)
        wanted = Type(DType.I32, packed.shape[:-1])
        if permutation != wanted:
            raise ShapeError(
                f"{self.mnemonic} of {packed} needs a permutation {wanted}, got {permutation}",
                operand=1,
            )
        check_right_side(self.mnemonic, packed, b, 2)
        return b

    def expand(self, *inputs: Node) -> Node:
        packed, permutation, b = inputs
        if not self.transpose:
            half = build.apply1("triangular_solve", packed, gathered(b, permutation), unit=True)
            return build.apply1("triangular_solve", packed, half, lower=False)
        half = build.apply1("triangular_solve", packed, b, lower=False, transpose=True)
        solved = build.apply1("triangular_solve", packed, half, unit=True, transpose=True)
        return gathered(solved, build.apply1("argsort", permutation, axis=-1))

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
        ]
