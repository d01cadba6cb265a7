"""Operations that apply one scalar primitive to every element of operands of equal type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from xlac.ir.faults import INFINITY, DeclaredFault, IntegerDivision, NegativePower
from xlac.ir.graph import Node
from xlac.ir.op import Array, Elementwise, Index, Operand, Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops import numeric
from xlac.ops.checks import ANY, BITS, FLOATS, INTEGERS, NUMBERS, check_dtype, check_same
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
    operands = ("x", "y")


class Unary(Scalar):
    operands = ("x",)
    accepts = FLOATS


@declare
class Add(Binary):
    """x + y; integers wrap."""

    mnemonic, primitive = "add", Primitive.ADD


@declare
class Sub(Binary):
    """x - y; integers wrap."""

    mnemonic, primitive = "sub", Primitive.SUB


@declare
class Mul(Binary):
    """x * y; integers wrap."""

    mnemonic, primitive = "mul", Primitive.MUL


@declare
class Div(Binary):
    """x / y; integers truncate, and x / 0 is -1 (all bits set)."""

    mnemonic, primitive = "div", Primitive.DIV

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        x, y = inputs
        return (IntegerDivision(x, y),)


@declare
class Rem(Binary):
    """The remainder of truncated division, with the sign of x; x rem 0 is x for integers, NaN for
    floats.
    """

    mnemonic, primitive = "rem", Primitive.REM

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        x, y = inputs
        return (IntegerDivision(x, y, overflows=False),)


@declare
class Pow(Binary):
    """x to the power y. Integers wrap; to a negative power they give the truncated reciprocal (0
    gives -1).
    """

    mnemonic, primitive = "pow", Primitive.POW

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        x, y = inputs
        return (NegativePower(x, y),)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        floats = dtypes_and_shapes(2, FLOATS, ("positive", "normal"))
        whole = [
            Sample((Type(d, (5, 9)),) * 2, {}, ("normal", "small")) for d in DType if d.is_integer
        ]
        return [*floats, *whole, Sample((Type(DType.I32, (64,)),) * 2, {}, ("unit", "normal"))]


@declare
class Max(Binary):
    """The larger; NaN when either is NaN, and +0 is larger than -0."""

    mnemonic, primitive = "max", Primitive.MAX
    creates = frozenset()


@declare
class Min(Binary):
    """The smaller; NaN when either is NaN, and -0 is smaller than +0."""

    mnemonic, primitive = "min", Primitive.MIN
    creates = frozenset()


@declare
class Floor(Unary):
    """Rounds down to an integer."""

    mnemonic, primitive = "floor", Primitive.FLOOR
    creates = frozenset()


@declare
class Round(Unary):
    """Rounds to the nearest integer, ties to even."""

    mnemonic, primitive = "round", Primitive.ROUND
    creates = frozenset()


@declare
class Exp(Unary):
    """e to the power x."""

    mnemonic, primitive = "exp", Primitive.EXP
    creates = frozenset({INFINITY})


@declare
class Expm1(Unary):
    """exp(x) - 1, accurate near 0."""

    mnemonic, primitive = "expm1", Primitive.EXPM1
    creates = frozenset({INFINITY})


@declare
class Log(Unary):
    """The natural logarithm; NaN below 0, -inf at 0."""

    mnemonic, primitive, draws = "log", Primitive.LOG, ("positive",)


@declare
class Log1p(Unary):
    """log(1 + x), accurate near 0."""

    mnemonic, primitive, draws = "log1p", Primitive.LOG1P, ("positive",)


@declare
class Sin(Unary):
    """The sine of x radians."""

    mnemonic, primitive = "sin", Primitive.SIN


@declare
class Cos(Unary):
    """The cosine of x radians."""

    mnemonic, primitive = "cos", Primitive.COS


@declare
class Sqrt(Unary):
    """The square root; NaN below 0."""

    mnemonic, primitive, draws = "sqrt", Primitive.SQRT, ("positive",)


@declare
class Erf(Unary):
    """The error function."""

    mnemonic, primitive = "erf", Primitive.ERF
    creates = frozenset()


@declare
class Atan2(Binary):
    """The angle of the point (y, x), from -pi to pi; the first operand is y."""

    mnemonic, primitive, accepts = "atan2", Primitive.ATAN2, FLOATS
    creates = frozenset()
    operands = ("y", "x")


@declare
class And(Binary):
    """Bitwise and; logical for bool."""

    mnemonic, primitive, accepts = "and", Primitive.AND, BITS
    creates = frozenset()


@declare
class Or(Binary):
    """Bitwise or; logical for bool."""

    mnemonic, primitive, accepts = "or", Primitive.OR, BITS
    creates = frozenset()


@declare
class Xor(Binary):
    """Bitwise exclusive or; logical for bool."""

    mnemonic, primitive, accepts = "xor", Primitive.XOR, BITS
    creates = frozenset()


@declare
class Shl(Binary):
    """Shifts left; by at least the width it gives 0."""

    mnemonic, primitive, accepts, draws = "shl", Primitive.SHL, INTEGERS, ("normal", "index")
    creates = frozenset()


@declare
class Shr(Binary):
    """Shifts right, copying the sign of signed integers; by at least the width only sign bits are
    left.
    """

    mnemonic, primitive, accepts, draws = "shr", Primitive.SHR, INTEGERS, ("normal", "index")
    creates = frozenset()


DIRECTIONS = {
    "lt": (Primitive.LT, False), "le": (Primitive.LE, False), "gt": (Primitive.LT, True),
    "ge": (Primitive.LE, True), "eq": (Primitive.EQ, False), "ne": (Primitive.NE, False),
}  # fmt: skip
"""The primitive of each comparison, and whether its operands swap."""


@declare
class Compare(Elementwise):
    """Whether x and y stand in a relation (`lt le gt ge eq ne`); with NaN only `ne` is true."""

    mnemonic = "compare"
    creates = frozenset()
    operands = ("x", "y")
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

    def infer(self, *types: Type) -> Type:
        condition, x, y = types
        check_dtype(self.mnemonic, condition, frozenset({DType.BOOL}))
        result = check_same(self.mnemonic, (x, y), 1)
        if condition.shape != result.shape:
            raise ShapeError(f"select needs equal shapes, got {condition} and {result}", operand=0)
        return result

    def evaluate(self, *arrays: Array) -> Array:
        condition, x, y = arrays
        return np.asarray(np.where(condition, x, y))

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        condition, x, y = (operand.read(at) for operand in inputs)
        compute = result.dtype.compute
        return build.select(condition, build.cast(x, compute), build.cast(y, compute))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        found = dtypes_and_shapes(2, ANY)
        return [Sample((s.inputs[0].with_dtype(DType.BOOL), *s.inputs), {}, s.draw) for s in found]
