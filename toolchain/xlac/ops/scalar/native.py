"""Composites that kernel IR has a primitive for: they fuse under their own name and need no
expansion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlac.ir.composite import Composite
from xlac.ir.faults import INFINITY
from xlac.ir.graph import Node, apply
from xlac.ir.op import declare
from xlac.ops import build
from xlac.ops.checks import BITS, FLOATS, INTEGERS, NUMBERS
from xlac.ops.scalar import arithmetic, convert, exponential
from xlac.ops.scalar.primitive import Scalar
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive


class Native(Scalar, Composite):
    """A scalar operation that could also be written with the primitives of the graph."""


@declare
class Neg(Native):
    """-x; integers wrap."""

    mnemonic, primitive, accepts = "neg", Primitive.NEG, NUMBERS
    creates = frozenset()

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x",),)

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        (ct,) = cotangents
        assert ct is not None
        return [apply("neg", ct)]

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        return build.mul(x, -1.0) if x.type.dtype.is_float else build.sub(build.like(0, x), x)


@declare
class Abs(Native):
    """The magnitude of x; the smallest integer stays as it is."""

    mnemonic, primitive, accepts = "abs", Primitive.ABS, NUMBERS
    creates = frozenset()
    derivatives = ("t * sign(x)",)

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        return build.maximum(x, Neg().expand(x)) if x.type.dtype.is_signed else x


@declare
class Ceil(Native):
    """Rounds up to an integer."""

    mnemonic, primitive, accepts = "ceil", Primitive.CEIL, FLOATS
    creates = frozenset()
    derivatives = ("0",)

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        return build.mul(Node.of(arithmetic.Floor(), build.mul(x, -1.0)), -1.0)


@declare
class Trunc(Native):
    """Rounds towards zero to an integer."""

    mnemonic, primitive, accepts = "trunc", Primitive.TRUNC, FLOATS
    creates = frozenset()
    derivatives = ("0",)

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        return build.select(
            build.compare(x, "lt", 0.0), Ceil().expand(x), Node.of(arithmetic.Floor(), x)
        )


@declare
class Not(Native):
    """Every bit inverted; logical for bool."""

    mnemonic, primitive, accepts = "not", Primitive.NOT, BITS
    creates = frozenset()

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        dtype = x.type.dtype
        ones = True if dtype is DType.BOOL else -1 if dtype.is_signed else 2**dtype.bits - 1
        return Node.of(arithmetic.Xor(), x, build.like(ones, x))


@declare
class Tanh(Native):
    """The hyperbolic tangent."""

    mnemonic, primitive, accepts = "tanh", Primitive.TANH, FLOATS
    creates = frozenset()
    derivatives = ("t * (1 - result * result)",)

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        wide = build.compute(x)
        # never overflows, exact near 0
        power = Node.of(exponential.Expm1(), build.mul(Abs().expand(wide), -2.0))
        size = build.div(build.mul(power, -1.0), build.add(power, 2.0))
        return build.cast(
            build.select(build.compare(wide, "lt", 0.0), build.mul(size, -1.0), size), x.type.dtype
        )


@declare
class Sigmoid(Native):
    """1 / (1 + exp(-x)), the logistic function."""

    mnemonic, primitive, accepts = "sigmoid", Primitive.SIGMOID, FLOATS
    creates = frozenset()
    derivatives = ("t * (result * (1 - result))",)

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        wide = build.compute(x)
        return build.cast(
            build.div(1.0, build.add(build.exp(build.mul(wide, -1.0)), 1.0)), x.type.dtype
        )


@declare
class GeluExact(Native):
    """x times the normal distribution function at x, accurate for negative x too; -0 at -inf. What
    `gelu` is.
    """

    mnemonic, primitive, accepts = "gelu_exact", Primitive.GELU, FLOATS
    derivatives = ("t * gelu_slope(x)",)

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        # from there it is 0, and -inf times 0 would be NaN
        wide = build.maximum(build.compute(x), -64.0)
        phi = build.mul(build.apply1("erfc", build.mul(wide, -math.sqrt(0.5))), 0.5)
        return build.cast(build.mul(wide, phi), x.type.dtype)


@declare
class Rsqrt(Native):
    """1 / sqrt(x)."""

    mnemonic, primitive, accepts, draws = "rsqrt", Primitive.RSQRT, FLOATS, ("positive",)
    derivatives = ("t * (-0.5 * result / x)",)

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        return build.cast(build.div(1.0, build.sqrt(build.compute(x))), x.type.dtype)


@declare
class Exp2(Native):
    """2 to the power x."""

    mnemonic, primitive, accepts = "exp2", Primitive.EXP2, FLOATS
    creates = frozenset({INFINITY})
    derivatives = ("t * (0.6931471805599453 * result)",)

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        return Node.of(arithmetic.Pow(), build.like(2.0, x), x)


@declare
class Log2(Native):
    """The logarithm to base 2."""

    mnemonic, primitive, accepts, draws = "log2", Primitive.LOG2, FLOATS, ("positive",)
    derivatives = ("t / (0.6931471805599453 * x)",)

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        return build.cast(build.mul(build.log(build.compute(x)), 1 / math.log(2.0)), x.type.dtype)


def _right(x: Node, by: int) -> Node:
    return Node.of(arithmetic.Shr(), x, build.like(by, x))


def _unsigned(x: Node) -> Node:
    dtype = convert.unsigned(x.type.dtype)
    return x if x.type.dtype is dtype else Node.of(convert.Bitcast(dtype), x)


def _signed(x: Node, dtype: DType) -> Node:
    return x if x.type.dtype is dtype else Node.of(convert.Bitcast(dtype), x)


@declare
class Popcnt(Native):
    """How many bits of x are set."""

    mnemonic, primitive, accepts, draws = "popcnt", Primitive.POPCNT, INTEGERS, ("special",)
    creates = frozenset()

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        bits = _unsigned(x)
        width = bits.type.dtype.bits
        for step in (1, 2, 4, 8, 16, 32):  # sums of ever wider fields
            if step < width:
                mask = sum(((1 << step) - 1) << at for at in range(0, width, 2 * step))
                low, high = (
                    Node.of(arithmetic.And(), bits, build.like(mask, bits)),
                    _right(bits, step),
                )
                bits = build.add(low, Node.of(arithmetic.And(), high, build.like(mask, bits)))
        return _signed(bits, x.type.dtype)


@declare
class Clz(Native):
    """How many zero bits lead x."""

    mnemonic, primitive, accepts, draws = "clz", Primitive.CLZ, INTEGERS, ("special",)
    creates = frozenset()

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        bits = _unsigned(x)
        for step in (1, 2, 4, 8, 16, 32):
            if step < bits.type.dtype.bits:
                bits = Node.of(arithmetic.Or(), bits, _right(bits, step))
        return Popcnt().expand(_signed(Not().expand(bits), x.type.dtype))
