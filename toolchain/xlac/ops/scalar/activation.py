"""Activation functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from xlac.ir.graph import Node
from xlac.ir.op import Array, Sample, declare
from xlac.ops import build, numeric
from xlac.ops.checks import NUMBERS
from xlac.ops.scalar import exponential, native
from xlac.ops.scalar.formula import Direct, Formula, cases
from xlac_sdk.kernel_ir.primitives import Primitive


def sigmoid(x: Node) -> Node:
    """1 / (1 + exp(-x))."""
    return Node.of(native.Sigmoid(), x)


def tanh(x: Node) -> Node:
    """The hyperbolic tangent of x."""
    return Node.of(native.Tanh(), x)


def positive(x: Node, yes: Node, no: Node) -> Node:
    """One where x > 0, the other elsewhere (and for NaN)."""
    return build.select(build.compare(x, "gt", 0.0), yes, no)


@declare
class Relu(Direct):
    """max(x, 0)."""

    mnemonic, accepts = "relu", NUMBERS
    creates = frozenset()
    derivatives = ("where(result > 0, t, 0)",)

    def formula(self, *xs: Node) -> Node:
        return build.maximum(xs[0], 0)

    def meaning(self, *arrays: Array) -> Array:
        return numeric.scalar(Primitive.MAX, arrays[0], np.zeros_like(arrays[0]))


@declare
class Relu6(Direct):
    """max(x, 0), at most 6."""

    mnemonic, accepts = "relu6", NUMBERS
    creates = frozenset()
    derivatives = ("where((result > 0) & (result < 6), t, 0)",)

    def formula(self, *xs: Node) -> Node:
        return build.minimum(build.maximum(xs[0], 0), 6)

    def meaning(self, *arrays: Array) -> Array:
        return np.clip(arrays[0], 0, 6)


@declare
class LeakyRelu(Direct):
    """x where positive, `alpha * x` elsewhere."""

    mnemonic = "leaky_relu"
    derivatives = ("where(x > 0, t, t * alpha)",)
    alpha: float = 0.01

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        return positive(x, x, build.mul(x, self.alpha))

    def meaning(self, *arrays: Array) -> Array:
        (x,) = arrays
        return np.where(x > 0, x, x * self.alpha)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [*super().samples(), *cases(cls, {"alpha": 0.3})]


@declare
class Prelu(Direct):
    """x where positive, slope * x elsewhere; the slope broadcasts."""

    mnemonic = "prelu"
    operands = ("x", "slope")
    derivatives = ("t * where(x > 0, 1, slope)", "t * where(x > 0, 0, x)")

    def formula(self, *xs: Node) -> Node:
        x, slope = xs
        return positive(x, x, build.mul(x, slope))

    def meaning(self, *arrays: Array) -> Array:
        x, slope = arrays
        return np.where(x > 0, x, x * slope)


@declare
class Elu(Direct):
    """x where positive, `alpha * (exp(x) - 1)` elsewhere."""

    mnemonic = "elu"
    derivatives = ("t * where(x > 0, 1, result + alpha)",)
    alpha: float = 1.0

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        power = Node.of(exponential.Expm1(), build.minimum(x, 0.0))
        return positive(x, x, build.mul(power, self.alpha))

    def meaning(self, *arrays: Array) -> Array:
        (x,) = arrays
        return np.where(x > 0, x, np.expm1(np.minimum(x, 0)) * self.alpha)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [*super().samples(), *cases(cls, {"alpha": 0.5})]


@declare
class Selu(Direct):
    """The self-normalising ELU: `scale * elu(x, alpha)` with the published constants."""

    mnemonic = "selu"
    derivatives = ("t * where(x > 0, scale, result + alpha * scale)",)
    alpha: float = 1.6732632423543772
    scale: float = 1.0507009873554805

    def formula(self, *xs: Node) -> Node:
        return build.mul(Elu(self.alpha).formula(*xs), self.scale)

    def meaning(self, *arrays: Array) -> Array:
        return Elu(self.alpha).meaning(*arrays) * self.scale


@declare
class Celu(Direct):
    """x where positive, `alpha * (exp(x / alpha) - 1)` elsewhere."""

    mnemonic = "celu"
    derivatives = ("t * where(x > 0, 1, result / alpha + 1)",)
    alpha: float = 1.0

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        power = Node.of(exponential.Expm1(), build.div(build.minimum(x, 0.0), self.alpha))
        return positive(x, x, build.mul(power, self.alpha))

    def meaning(self, *arrays: Array) -> Array:
        (x,) = arrays
        return np.where(x > 0, x, np.expm1(np.minimum(x, 0) / self.alpha) * self.alpha)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [*super().samples(), *cases(cls, {"alpha": 2.0})]


@declare
class Gelu(Formula):
    """x times the normal distribution function at x; `approximate: tanh` is the usual approximation
    of it.
    """

    mnemonic = "gelu"
    approximate: Literal["none", "tanh"] = "none"

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        if self.approximate == "none":
            return Node.of(native.GeluExact(), x)
        cube = build.mul(build.mul(x, x), x)
        inner = build.mul(build.add(build.mul(cube, 0.044715), x), math.sqrt(8 / math.pi))
        return build.mul(x, sigmoid(inner))  # (1 + tanh u)/2 is sigmoid(2 u), which does not cancel

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [*super().samples(), *cases(cls, {"approximate": "tanh"})]


@declare
class Silu(Formula):
    """x * sigmoid(x), also called swish."""

    mnemonic = "silu"
    derivatives = ("t * (sigmoid(x) * (1 + x * (1 - sigmoid(x))))",)

    def formula(self, *xs: Node) -> Node:
        return build.mul(xs[0], sigmoid(xs[0]))


@declare
class Mish(Formula):
    """x * tanh(softplus(x))."""

    mnemonic = "mish"

    def formula(self, *xs: Node) -> Node:
        return build.mul(xs[0], tanh(Node.of(Softplus(), *xs)))


@declare
class Hardsigmoid(Direct):
    """`alpha * x + beta`, cut off at 0 and 1."""

    mnemonic = "hardsigmoid"
    derivatives = ("where((result > 0) & (result < 1), t * alpha, 0)",)
    alpha: float = 1 / 6
    beta: float = 0.5

    def formula(self, *xs: Node) -> Node:
        return build.minimum(
            build.maximum(build.add(build.mul(xs[0], self.alpha), self.beta), 0.0), 1.0
        )

    def meaning(self, *arrays: Array) -> Array:
        return np.clip(arrays[0] * self.alpha + self.beta, 0, 1)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [*super().samples(), *cases(cls, {"alpha": 0.2, "beta": 0.4})]


@declare
class Hardswish(Direct):
    """x * hardsigmoid(x)."""

    mnemonic = "hardswish"
    derivatives = ("t * where(x <= -3, 0, where(x >= 3, 1, x / 3 + 0.5))",)

    def formula(self, *xs: Node) -> Node:
        return build.mul(xs[0], Hardsigmoid().formula(*xs))

    def meaning(self, *arrays: Array) -> Array:
        return arrays[0] * np.clip(arrays[0] * (1 / 6) + 0.5, 0, 1)


@declare
class Softplus(Direct):
    """log(1 + exp(x)), without overflow."""

    mnemonic = "softplus"
    derivatives = ("t * sigmoid(x)",)

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        power = build.exp(build.mul(Node.of(native.Abs(), x), -1.0))
        return build.add(build.maximum(x, 0.0), Node.of(exponential.Log1p(), power))

    def meaning(self, *arrays: Array) -> Array:
        return np.logaddexp(arrays[0], 0).astype(arrays[0].dtype)


@declare
class Softsign(Direct):
    """x / (1 + |x|)."""

    mnemonic = "softsign"
    derivatives = ("t / ((1 + abs(x)) * (1 + abs(x)))",)

    def formula(self, *xs: Node) -> Node:
        return build.div(xs[0], build.add(Node.of(native.Abs(), xs[0]), 1.0))

    def meaning(self, *arrays: Array) -> Array:
        return np.asarray(arrays[0] / (1 + np.abs(arrays[0])))
