"""Tangents, inverses of sine and cosine, and hyperbolic functions."""

from __future__ import annotations

import math

import numpy as np

from xlac.ir.graph import Node
from xlac.ir.op import Array, declare
from xlac.ops import build
from xlac.ops.scalar import exponential
from xlac.ops.scalar.elementary import absolute, atan2, cosine, log1p, sine, with_sign
from xlac.ops.scalar.formula import Direct


@declare
class Tan(Direct):
    """The tangent of x radians."""

    mnemonic = "tan"
    derivatives = ("t * (1 + result * result)",)

    def formula(self, *xs: Node) -> Node:
        return build.div(sine(xs[0]), cosine(xs[0]))

    def meaning(self, *arrays: Array) -> Array:
        return np.tan(arrays[0])


@declare
class Asin(Direct):
    """The angle in radians whose sine is x; NaN outside -1..1."""

    mnemonic, draws = "asin", ("unit",)
    derivatives = ("t * rsqrt((1 - x) * (1 + x))",)

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        return atan2(x, build.sqrt(build.mul(build.sub(1.0, x), build.add(x, 1.0))))

    def meaning(self, *arrays: Array) -> Array:
        return np.arcsin(arrays[0])


@declare
class Acos(Direct):
    """The angle in radians whose cosine is x; NaN outside -1..1."""

    mnemonic, draws = "acos", ("unit",)
    derivatives = ("-t * rsqrt((1 - x) * (1 + x))",)

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        return atan2(build.sqrt(build.mul(build.sub(1.0, x), build.add(x, 1.0))), x)

    def meaning(self, *arrays: Array) -> Array:
        return np.arccos(arrays[0])


@declare
class Atan(Direct):
    """The angle in radians whose tangent is x."""

    mnemonic = "atan"
    derivatives = ("t / (1 + x * x)",)

    def formula(self, *xs: Node) -> Node:
        return atan2(xs[0], build.like(1.0, xs[0]))

    def meaning(self, *arrays: Array) -> Array:
        return np.arctan(arrays[0])


@declare
class Sinh(Direct):
    """The hyperbolic sine."""

    mnemonic = "sinh"
    derivatives = ("t * cosh(x)",)

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        power = Node.of(exponential.Expm1(), absolute(x))
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
    derivatives = ("t * sinh(x)",)

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
    derivatives = ("t * rsqrt(x * x + 1)",)

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
    derivatives = ("t * rsqrt((x - 1) * (x + 1))",)

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
    derivatives = ("t / ((1 - x) * (1 + x))",)

    def formula(self, *xs: Node) -> Node:
        x = absolute(xs[0])
        return with_sign(
            build.mul(log1p(build.div(build.mul(x, 2.0), build.sub(1.0, x))), 0.5), xs[0]
        )

    def meaning(self, *arrays: Array) -> Array:
        return np.arctanh(arrays[0])
