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
from xlac.ops.scalar import arithmetic, native
from xlac.ops.scalar.formula import Direct


def absolute(x: Node) -> Node:
    return Node.of(native.Abs(), x)


def with_sign(size: Node, x: Node) -> Node:
    """`size` with the sign that x has; -0 counts as positive."""
    return build.select(build.compare(x, "lt", 0.0), build.mul(size, -1.0), size)


def sine(x: Node) -> Node:
    return Node.of(arithmetic.Sin(), x)


def cosine(x: Node) -> Node:
    return Node.of(arithmetic.Cos(), x)


def log1p(x: Node) -> Node:
    return Node.of(arithmetic.Log1p(), x)


def atan2(y: Node, x: Node) -> Node:
    return Node.of(arithmetic.Atan2(), y, x)


@declare
class Sign(Direct):
    """-1, 0 or 1; zeros and NaN stay as they are."""

    mnemonic, accepts = "sign", NUMBERS
    creates = frozenset()

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

    def formula(self, *xs: Node) -> Node:
        return build.mul(xs[0], xs[0])

    def meaning(self, *arrays: Array) -> Array:
        return np.square(arrays[0])


@declare
class Reciprocal(Direct):
    """1 / x."""

    mnemonic = "reciprocal"

    def formula(self, *xs: Node) -> Node:
        return build.div(1.0, xs[0])

    def meaning(self, *arrays: Array) -> Array:
        return 1 / arrays[0]


@declare
class Cbrt(Direct):
    """The cube root, also of negative numbers."""

    mnemonic = "cbrt"

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
        found = np.floor_divide(x, np.where(y == 0, 1, y))
        return np.where(y == 0, np.array(-1).astype(x.dtype), found)

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
class Tan(Direct):
    """The tangent of x radians."""

    mnemonic = "tan"

    def formula(self, *xs: Node) -> Node:
        return build.div(sine(xs[0]), cosine(xs[0]))

    def meaning(self, *arrays: Array) -> Array:
        return np.tan(arrays[0])


@declare
class Asin(Direct):
    """The angle in radians whose sine is x; NaN outside -1..1."""

    mnemonic, draws = "asin", ("unit",)

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        return atan2(x, build.sqrt(build.mul(build.sub(1.0, x), build.add(x, 1.0))))

    def meaning(self, *arrays: Array) -> Array:
        return np.arcsin(arrays[0])


@declare
class Acos(Direct):
    """The angle in radians whose cosine is x; NaN outside -1..1."""

    mnemonic, draws = "acos", ("unit",)

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        return atan2(build.sqrt(build.mul(build.sub(1.0, x), build.add(x, 1.0))), x)

    def meaning(self, *arrays: Array) -> Array:
        return np.arccos(arrays[0])


@declare
class Atan(Direct):
    """The angle in radians whose tangent is x."""

    mnemonic = "atan"

    def formula(self, *xs: Node) -> Node:
        return atan2(xs[0], build.like(1.0, xs[0]))

    def meaning(self, *arrays: Array) -> Array:
        return np.arctan(arrays[0])


@declare
class Sinh(Direct):
    """The hyperbolic sine."""

    mnemonic = "sinh"

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        power = Node.of(arithmetic.Expm1(), absolute(x))
        small = build.mul(build.add(power, build.div(power, build.add(power, 1.0))), 0.5)
        # squared, it reaches where exp(x) / 2 is finite and exp(x) is not
        half = build.exp(build.mul(absolute(x), 0.5))
        large = build.mul(build.mul(half, 0.5), half)
        return with_sign(build.select(build.compare(absolute(x), "gt", 20.0), large, small), x)

    def meaning(self, *arrays: Array) -> Array:
        return np.sinh(arrays[0])


@declare
class Cosh(Direct):
    """The hyperbolic cosine."""

    mnemonic = "cosh"

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        half = build.exp(build.mul(absolute(x), 0.5))
        power = build.exp(build.mul(absolute(x), -1.0))
        return build.add(build.mul(build.mul(half, 0.5), half), build.mul(power, 0.5))

    def meaning(self, *arrays: Array) -> Array:
        return np.cosh(arrays[0])


@declare
class Asinh(Direct):
    """The inverse of the hyperbolic sine."""

    mnemonic = "asinh"

    def formula(self, *xs: Node) -> Node:
        x = absolute(xs[0])
        square = build.mul(x, x)
        small = log1p(
            build.add(x, build.div(square, build.add(build.sqrt(build.add(square, 1.0)), 1.0)))
        )
        large = build.add(build.log(x), math.log(2.0))  # where the square would overflow
        return with_sign(build.select(build.compare(x, "gt", 1e9), large, small), xs[0])

    def meaning(self, *arrays: Array) -> Array:
        return np.arcsinh(arrays[0])


@declare
class Acosh(Direct):
    """The inverse of the hyperbolic cosine; NaN below 1."""

    mnemonic, draws = "acosh", ("positive",)

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        t = build.sub(x, 1.0)
        small = log1p(build.add(t, build.mul(build.sqrt(t), build.sqrt(build.add(x, 1.0)))))
        large = build.add(build.log(x), math.log(2.0))
        return build.select(build.compare(x, "gt", 1e9), large, small)

    def meaning(self, *arrays: Array) -> Array:
        return np.arccosh(arrays[0])


@declare
class Atanh(Direct):
    """The inverse of the hyperbolic tangent; NaN outside -1..1."""

    mnemonic, draws = "atanh", ("unit",)

    def formula(self, *xs: Node) -> Node:
        x = absolute(xs[0])
        return with_sign(
            build.mul(log1p(build.div(build.mul(x, 2.0), build.sub(1.0, x))), 0.5), xs[0]
        )

    def meaning(self, *arrays: Array) -> Array:
        return np.arctanh(arrays[0])


@declare
class SquaredDifference(Direct):
    """(x - y) squared."""

    mnemonic, accepts = "squared_difference", NUMBERS
    operands = ("x", "y")

    def formula(self, *xs: Node) -> Node:
        gap = build.sub(*xs)
        return build.mul(gap, gap)

    def meaning(self, *arrays: Array) -> Array:
        return np.asarray(np.square(arrays[0] - arrays[1]))
