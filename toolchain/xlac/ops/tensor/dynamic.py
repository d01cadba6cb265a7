"""Operations on sizes that are only known when the model runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.dims import Dim, static
from xlac.ir.faults import DeclaredFault, SizeOverflow
from xlac.ir.graph import Node
from xlac.ir.leading import one_by_one, with_axis
from xlac.ir.op import Array, Elementwise, Index, Op, Operand, Sample, ShapeError, declare
from xlac.ir.types import Type, Types
from xlac.ops.checks import check_axes, check_dtype
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Const, Expr


@declare
class DimSize(Elementwise):
    """The extent of an axis of x, as an i32 scalar."""

    mnemonic = "dim_size"
    axis: int = 0

    def infer(self, *types: Type) -> Type:
        (x,) = types
        check_axes((self.axis,), x.rank, "axis")
        return Type(DType.I32)

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node]:
        (x,) = inputs
        return [with_axis(Node.of(DimSize(self.axis + 1), x), size)]

    def evaluate(self, *arrays: Array) -> Array:
        return np.asarray(arrays[0].shape[self.axis], np.int32)

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        size = inputs[0].type.shape[self.axis]
        return (
            Const(size, DType.I32)
            if isinstance(size, int)
            else build.cast(build.lift(size), DType.I32)
        )

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        size = inputs[0].shape[self.axis]
        return (SizeOverflow(size, DType.I32, f"the size of axis {self.axis}"),)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[tuple[int, ...], int]] = [
            ((7,), 0),
            ((0,), 0),
            ((3, 5), 0),
            ((3, 5), 1),
            ((2, 3, 5, 7), 2),
        ]
        return [Sample((Type(DType.F32, shape),), {"axis": axis}) for shape, axis in cases]


@declare
class Compact(Op):
    """The row-major positions of the true elements of a mask, in order, and how many there are.

    The positions are i64[bound]; those that are not used hold the size of the mask, so a scatter
    drops them. When there are more than `bound`, the first are kept, and the count says how many
    were found.
    """

    mnemonic = "compact"
    operands = ("mask",)
    bound: Dim = 0

    def infer(self, *types: Type) -> Types:
        (mask,) = types
        check_dtype(self.mnemonic, mask, frozenset({DType.BOOL}))
        if isinstance(self.bound, int) and self.bound < 0:
            raise ShapeError(f"bound {self.bound} is negative", attribute="bound")
        return Type(DType.I64, (self.bound,)), Type(DType.I64)

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node]:
        return one_by_one(node, inputs, mapped, size)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        (mask,) = arrays
        (bound,) = static((self.bound,))
        set_positions = np.flatnonzero(mask)
        positions = np.full(bound, mask.size, np.int64)
        positions[: min(bound, set_positions.size)] = set_positions[:bound]
        return positions, np.asarray(set_positions.size, np.int64)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[tuple[int, ...], int]] = [
            ((), 1),
            ((7,), 7),
            ((7,), 2),
            ((7,), 11),
            ((0,), 3),
            ((3, 5), 15),
            ((4999,), 4999),
            ((7,), 0),
        ]
        return [Sample((Type(DType.BOOL, shape),), {"bound": bound}) for shape, bound in cases]
