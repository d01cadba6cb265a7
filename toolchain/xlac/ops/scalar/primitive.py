"""Operations that apply one scalar primitive to every element of operands of equal type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xlac.ir.op import Array, Elementwise, Index, Operand, Sample
from xlac.ir.types import Type
from xlac.ops import numeric
from xlac.ops.checks import FLOATS, NUMBERS, check_dtype, check_same
from xlac.ops.sampling import dtypes_and_shapes
from xlac.ops.tensor.leaf import convert_element
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.kernel_ir.primitives import Primitive

EXACT = frozenset(
    {
        Primitive.MAX,
        Primitive.MIN,
        Primitive.FLOOR,
        Primitive.CEIL,
        Primitive.TRUNC,
        Primitive.ROUND,
        Primitive.NEG,
        Primitive.ABS,
        Primitive.SELECT,
    }
)
"""Primitives whose result on halves is a half already: nothing to round."""


class Scalar(Elementwise):
    """One primitive, element by element."""

    leading = {}
    primitive: ClassVar[Primitive]
    accepts: ClassVar[frozenset[DType]] = NUMBERS
    draws: ClassVar[tuple[str, ...]] = ("normal",)

    def infer(self, *types: Type) -> Type:
        for number, x in enumerate(types):
            check_dtype(self.mnemonic, x, self.accepts, number)
        return check_same(self.mnemonic, types)

    def evaluate(self, *arrays: Array) -> Array:
        return numeric.scalar(self.primitive, *arrays)

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        compute = inputs[0].type.dtype.compute
        value = build.apply(self.primitive, *(build.cast(x.read(at), compute) for x in inputs))
        return value if self.primitive in EXACT else convert_element(value, result.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return dtypes_and_shapes(len(cls.operands), cls.accepts, cls.draws)


class Binary(Scalar):
    """A scalar function of two operands."""

    operands = ("x", "y")


class Unary(Scalar):
    """A scalar function of one operand."""

    operands = ("x",)
    accepts = FLOATS
