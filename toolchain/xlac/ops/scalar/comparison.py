"""Comparisons, and the choice between two values by a condition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.graph import Node, apply, zeros
from xlac.ir.op import Array, Elementwise, Index, Operand, Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops import numeric
from xlac.ops.checks import ANY, NUMBERS, check_dtype, check_same
from xlac.ops.sampling import dtypes_and_shapes
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.kernel_ir.primitives import Primitive

DIRECTIONS = {
    "lt": (Primitive.LT, False),
    "le": (Primitive.LE, False),
    "gt": (Primitive.LT, True),
    "ge": (Primitive.LE, True),
    "eq": (Primitive.EQ, False),
    "ne": (Primitive.NE, False),
}
"""The primitive of each comparison, and whether its operands swap."""


@declare
class Compare(Elementwise):
    """Whether x and y stand in a relation (`lt le gt ge eq ne`); with NaN only `ne` is true."""

    mnemonic = "compare"
    creates = frozenset()
    operands = ("x", "y")
    leading = {}
    direction: str = "eq"

    def infer(self, *types: Type) -> Type:
        if self.direction not in DIRECTIONS:
            known = ", ".join(DIRECTIONS)
            raise ShapeError(
                f"unknown comparison {self.direction!r}; there are {known}", attribute="direction"
            )
        x, y = types
        if x.dtype is DType.BOOL and self.direction not in ("eq", "ne"):
            raise ShapeError(
                f"bool has no order: {self.direction} takes numbers", operand=0, hint="use eq or ne"
            )
        return check_same(self.mnemonic, (x, y)).with_dtype(DType.BOOL)

    def evaluate(self, *arrays: Array) -> Array:
        primitive, swap = DIRECTIONS[self.direction]
        return numeric.scalar(primitive, *(arrays[::-1] if swap else arrays))

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        primitive, swap = DIRECTIONS[self.direction]
        compute = inputs[0].type.dtype.compute
        values = [build.cast(x.read(at), compute) for x in inputs]
        return build.apply(primitive, *(values[::-1] if swap else values))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        each = [
            Sample((Type(DType.F32, (5, 9)),) * 2, {"direction": d}, ("special",))
            for d in DIRECTIONS
        ]
        return (
            each
            + dtypes_and_shapes(2, NUMBERS, attributes={"direction": "le"})
            + [Sample((Type(DType.BOOL, (9,)),) * 2, {"direction": "ne"})]
        )


@declare
class Select(Elementwise):
    """x where the condition is true, y where it is false; nothing of the other one shows."""

    mnemonic = "select"
    creates = frozenset()
    operands = ("condition", "x", "y")
    leading = {}

    def infer(self, *types: Type) -> Type:
        condition, x, y = types
        check_dtype(self.mnemonic, condition, frozenset({DType.BOOL}))
        result = check_same(self.mnemonic, (x, y), 1)
        if condition.shape != result.shape:
            raise ShapeError(f"select needs equal shapes, got {condition} and {result}", operand=0)
        return result

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x", "y"),)

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        (ct,), condition = cotangents, node.inputs[0]
        assert ct is not None and not linear[0], "a choice is not linear in its condition"
        zero = zeros(ct.type)
        return [
            None,
            apply("select", condition, ct, zero) if linear[1] else None,
            apply("select", condition, zero, ct) if linear[2] else None,
        ]

    def evaluate(self, *arrays: Array) -> Array:
        condition, x, y = arrays
        return np.asarray(np.where(condition, x, y))

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        condition, x, y = (operand.read(at) for operand in inputs)
        compute = result.dtype.compute
        return build.select(condition, build.cast(x, compute), build.cast(y, compute))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        of_two = dtypes_and_shapes(2, ANY)
        return [Sample((s.inputs[0].with_dtype(DType.BOOL), *s.inputs), {}, s.draw) for s in of_two]
