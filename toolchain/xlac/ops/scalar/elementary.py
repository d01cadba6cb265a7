"""Elementary functions and tests on elements, from the primitives."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlac.ir.faults import DeclaredFault, IntegerDivision
from xlac.ir.graph import Node
from xlac.ir.op import Array, declare
from xlac.ops import build
from xlac.ops.checks import NUMBERS
from xlac.ops.scalar import arithmetic, exponential, native
from xlac.ops.scalar.formula import Direct


def absolute(x: Node) -> Node:
    """The magnitude of x."""
    return Node.of(native.Abs(), x)


def with_sign(size: Node, x: Node) -> Node:
    """`size` with the sign that x has; -0 counts as positive."""
    return build.select(build.compare(x, "lt", 0.0), build.mul(size, -1.0), size)


def sine(x: Node) -> Node:
    """The sine of x radians."""
    return Node.of(arithmetic.Sin(), x)


def cosine(x: Node) -> Node:
    """The cosine of x radians."""
    return Node.of(arithmetic.Cos(), x)


def log1p(x: Node) -> Node:
    """log(1 + x)."""
    return Node.of(exponential.Log1p(), x)


def atan2(y: Node, x: Node) -> Node:
    """The angle of the point (y, x)."""
    return Node.of(arithmetic.Atan2(), y, x)


@declare
class Sign(Direct):
    """-1, 0 or 1; zeros and NaN stay as they are."""

    mnemonic, accepts = "sign", NUMBERS
    creates = frozenset()
    derivatives = ("0",)

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        up = build.select(build.compare(x, "gt", 0), build.like(1, x), x)
        return (
            build.select(build.compare(x, "lt", 0), build.like(-1, x), up)
            if x.type.dtype.is_signed
            else up
        )

    def meaning(self, *arrays: Array) -> Array:
        return np.sign(arrays[0])


@declare
class Square(Direct):
    """x * x."""

    mnemonic, accepts = "square", NUMBERS
    derivatives = ("2 * t * x",)

    def formula(self, *xs: Node) -> Node:
        return build.mul(xs[0], xs[0])

    def meaning(self, *arrays: Array) -> Array:
        return np.square(arrays[0])


@declare
class Reciprocal(Direct):
    """1 / x."""

    mnemonic = "reciprocal"
    derivatives = ("-t * (result * result)",)

    def formula(self, *xs: Node) -> Node:
        return build.div(1.0, xs[0])

    def meaning(self, *arrays: Array) -> Array:
        return 1 / arrays[0]


@declare
class Cbrt(Direct):
    """The cube root, also of negative numbers."""

    mnemonic = "cbrt"
    derivatives = ("t / (3 * (result * result))",)

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        size = Node.of(arithmetic.Pow(), absolute(x), build.like(1 / 3, x))
        # one step of Newton's method repairs the rounding of 1/3; it must not touch 0 and infinity
        better = build.sub(
            size, build.div(build.sub(size, build.div(absolute(x), build.mul(size, size))), 3.0)
        )
        tame = Node.of(
            arithmetic.And(), build.compare(size, "gt", 0.0), build.compare(size, "lt", math.inf)
        )
        return with_sign(build.select(tame, better, size), x)

    def meaning(self, *arrays: Array) -> Array:
        return np.cbrt(arrays[0])


@declare
class FloorDivide(Direct):
    """x / y rounded down, as Python's `//`; an integer by 0 gives -1."""

    mnemonic, accepts = "floor_divide", NUMBERS
    operands = ("x", "y")
    derivatives = ("0", "0")

    def formula(self, *xs: Node) -> Node:
        x, y = xs
        if x.type.dtype.is_float:
            return Node.of(arithmetic.Floor(), build.div(x, y))
        quotient = build.div(x, y)
        if not x.type.dtype.is_signed:
            return quotient
        odd = _crosses(x, y)
        return build.select(odd, build.sub(quotient, 1), quotient)

    def meaning(self, *arrays: Array) -> Array:
        x, y = arrays
        if x.dtype.kind == "f":
            return np.floor(x / y)
        quotient = np.floor_divide(x, np.where(y == 0, 1, y))
        return np.where(y == 0, np.array(-1).astype(x.dtype), quotient)

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        x, y = inputs
        return (IntegerDivision(x, y),)


def _crosses(x: Node, y: Node) -> Node:
    """Whether truncated division of signed integers left a remainder of the other sign than y's."""
    rest = Node.of(arithmetic.Rem(), x, y)
    apart = build.compare(build.compare(rest, "lt", 0), "ne", build.compare(y, "lt", 0))
    real = Node.of(arithmetic.And(), build.compare(rest, "ne", 0), build.compare(y, "ne", 0))
    return Node.of(arithmetic.And(), real, apart)


@declare
class Mod(Direct):
    """The remainder with the sign of y, as Python's `%`; an integer mod 0 is itself."""

    mnemonic, accepts = "mod", NUMBERS
    operands = ("x", "y")
    derivatives = ("t", "-t * floor(x / y)")

    def formula(self, *xs: Node) -> Node:
        x, y = xs
        rest = Node.of(arithmetic.Rem(), x, y)
        if not x.type.dtype.is_signed:
            return rest
        if x.type.dtype.is_float:
            apart = build.compare(build.compare(rest, "lt", 0.0), "ne", build.compare(y, "lt", 0.0))
            fix = Node.of(arithmetic.And(), build.compare(rest, "ne", 0.0), apart)
        else:
            fix = _crosses(x, y)
        return build.select(fix, build.add(rest, y), rest)

    def meaning(self, *arrays: Array) -> Array:
        x, y = arrays
        if x.dtype.kind == "f":
            rest = np.fmod(x, y)
            return np.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)
        return np.where(y == 0, x, np.mod(x, np.where(y == 0, 1, y)))

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        x, y = inputs
        return (IntegerDivision(x, y, overflows=False),)


@declare
class SquaredDifference(Direct):
    """(x - y) squared."""

    mnemonic, accepts = "squared_difference", NUMBERS
    operands = ("x", "y")
    derivatives = ("2 * t * (x - y)", "-2 * t * (x - y)")

    def formula(self, *xs: Node) -> Node:
        gap = build.sub(*xs)
        return build.mul(gap, gap)

    def meaning(self, *arrays: Array) -> Array:
        return np.asarray(np.square(arrays[0] - arrays[1]))
