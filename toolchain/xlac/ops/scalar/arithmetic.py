"""Arithmetic, elementary functions and operations on bits: a scalar primitive each."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlac.ir.faults import DeclaredFault, IntegerDivision, NegativePower
from xlac.ir.graph import Node, apply
from xlac.ir.op import Sample, declare
from xlac.ir.types import Type
from xlac.ops.checks import BITS, FLOATS, INTEGERS
from xlac.ops.sampling import dtypes_and_shapes
from xlac.ops.scalar.primitive import Binary, Unary
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive


@declare
class Add(Binary):
    """x + y; integers wrap."""

    mnemonic, primitive = "add", Primitive.ADD

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x", "y"),)

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        return [cotangents[0] if wanted else None for wanted in linear]


@declare
class Sub(Binary):
    """x - y; integers wrap."""

    mnemonic, primitive = "sub", Primitive.SUB

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x", "y"),)

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        (ct,) = cotangents
        assert ct is not None
        return [ct if linear[0] else None, apply("neg", ct) if linear[1] else None]


@declare
class Mul(Binary):
    """x * y; integers wrap."""

    mnemonic, primitive = "mul", Primitive.MUL

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x",), ("y",))

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        (ct,), (x, y) = cotangents, node.inputs
        assert ct is not None and not all(linear), "a product of two changes is not linear"
        return [
            apply("mul", ct, other) if wanted else None
            for wanted, other in zip(linear, (y, x), strict=True)
        ]


@declare
class Div(Binary):
    """x / y; integers truncate, and x / 0 is -1 (all bits set)."""

    mnemonic, primitive = "div", Primitive.DIV
    derivatives = ("t / y", "-t * (result / y)")

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        (ct,), (_, y) = cotangents, node.inputs
        assert ct is not None and not linear[1], "a quotient is not linear in what divides"
        return [apply("div", ct, y), None]

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        x, y = inputs
        return (IntegerDivision(x, y),)


@declare
class Rem(Binary):
    """The remainder of truncated division, with the sign of x; x rem 0 is x for integers, NaN for
    floats.
    """

    mnemonic, primitive = "rem", Primitive.REM
    derivatives = ("t", "-t * trunc(x / y)")

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        x, y = inputs
        return (IntegerDivision(x, y, overflows=False),)


@declare
class Pow(Binary):
    """x to the power y. Integers wrap; to a negative power they give the truncated reciprocal (0
    gives -1).
    """

    mnemonic, primitive = "pow", Primitive.POW
    derivatives = (
        "t * where(y == 0, 0, y * pow(x, y - 1))",
        "t * where((x == 0) & (y >= 0), 0, result * log(x))",
    )

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
    derivatives = (
        "where(x == y, t * 0.5, where(x < y, 0, t))",
        "where(x == y, t * 0.5, where(y < x, 0, t))",
    )


@declare
class Min(Binary):
    """The smaller; NaN when either is NaN, and -0 is smaller than +0."""

    mnemonic, primitive = "min", Primitive.MIN
    creates = frozenset()
    derivatives = (
        "where(x == y, t * 0.5, where(x > y, 0, t))",
        "where(x == y, t * 0.5, where(y > x, 0, t))",
    )


@declare
class Floor(Unary):
    """Rounds down to an integer."""

    mnemonic, primitive = "floor", Primitive.FLOOR
    creates = frozenset()
    derivatives = ("0",)


@declare
class Round(Unary):
    """Rounds to the nearest integer, ties to even."""

    mnemonic, primitive = "round", Primitive.ROUND
    creates = frozenset()
    derivatives = ("0",)


@declare
class Sin(Unary):
    """The sine of x radians."""

    mnemonic, primitive = "sin", Primitive.SIN
    derivatives = ("t * cos(x)",)


@declare
class Cos(Unary):
    """The cosine of x radians."""

    mnemonic, primitive = "cos", Primitive.COS
    derivatives = ("-t * sin(x)",)


@declare
class Sqrt(Unary):
    """The square root; NaN below 0."""

    mnemonic, primitive, draws = "sqrt", Primitive.SQRT, ("positive",)
    derivatives = ("t * 0.5 / result",)


@declare
class Erf(Unary):
    """The error function."""

    mnemonic, primitive = "erf", Primitive.ERF
    creates = frozenset()
    derivatives = (f"t * ({2 / math.sqrt(math.pi)!r} * exp(-x * x))",)


@declare
class Atan2(Binary):
    """The angle of the point (y, x), from -pi to pi; the first operand is y."""

    mnemonic, primitive, accepts = "atan2", Primitive.ATAN2, FLOATS
    creates = frozenset()
    operands = ("y", "x")
    derivatives = ("t * (x / (x * x + y * y))", "-t * (y / (x * x + y * y))")


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
