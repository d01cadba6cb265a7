"""Rounding: halves away from zero, and to fewer bits of exponent and fraction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.graph import Node
from xlac.ir.op import Array, Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import FLOATS, check_dtype
from xlac.ops.scalar import arithmetic, convert
from xlac.ops.scalar.formula import Direct
from xlac_sdk.dtypes import DType


@declare
class RoundHalfAway(Direct):
    """Rounds to the nearest integer, ties away from zero."""

    mnemonic = "round_half_away"
    derivatives = ("0",)

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        size = build.apply1("abs", x)
        down = Node.of(arithmetic.Floor(), size)
        up = build.select(
            build.compare(build.sub(size, down), "ge", 0.5), build.add(down, 1.0), down
        )
        return build.select(
            build.compare(x, "lt", 0.0),
            build.mul(up, -1.0),
            build.select(build.compare(x, "eq", 0.0), x, up),
        )

    def meaning(self, *arrays: Array) -> Array:
        (x,) = arrays
        whole = np.trunc(x)
        return np.copysign(
            np.where(np.abs(x - whole) >= 0.5, np.abs(whole) + 1, np.abs(whole)), x
        ).astype(x.dtype)


@declare
class ReducePrecision(Composite):
    """x rounded to nearest even as if it had `exponent_bits` and `mantissa_bits`; it keeps its
    element type.

    What is too large becomes infinite, what is too small a zero of its sign: subnormal results are
    flushed where there are fewer bits of exponent than the type has. NaN stays NaN, however few
    bits of mantissa are left.
    """

    mnemonic = "reduce_precision"
    derivatives = ("t",)
    exponent_bits: int = 8
    mantissa_bits: int = 7

    def infer(self, *types: Type) -> Type:
        (x,) = types
        check_dtype(self.mnemonic, x, FLOATS)
        if self.exponent_bits < 1 or self.mantissa_bits < 0:
            raise ShapeError(
                "reduce_precision keeps at least 1 bit of exponent", attribute="exponent_bits"
            )
        return x

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        dtype = x.type.dtype
        mantissa = {DType.F16: 10, DType.BF16: 7, DType.F32: 23, DType.F64: 52}[dtype]
        exponent = dtype.bits - 1 - mantissa
        whole = DType(f"u{dtype.bits}")
        bits = Node.of(convert.Bitcast(whole), x)

        def both(a: Node, b: int | Node) -> Node:
            return build.apply1("and", a, b if isinstance(b, Node) else build.constant(b, whole))

        gone = mantissa - self.mantissa_bits
        if gone > 0:
            last = both(build.apply1("shr", bits, build.constant(gone, whole)), 1)
            bits = build.add(bits, build.add(last, build.constant((1 << (gone - 1)) - 1, whole)))
            bits = both(bits, ((1 << (exponent + mantissa + 1)) - 1) & ~((1 << gone) - 1))
        if self.exponent_bits < exponent:
            reach = (1 << (self.exponent_bits - 1)) - 1
            bias = (1 << (exponent - 1)) - 1
            field = both(bits, ((1 << exponent) - 1) << mantissa)
            sign = both(bits, 1 << (exponent + mantissa))
            infinite = build.apply1(
                "or", sign, build.constant(((1 << exponent) - 1) << mantissa, whole)
            )
            bits = build.select(
                build.compare(field, "gt", build.constant((bias + reach) << mantissa, whole)),
                infinite,
                bits,
            )
            # a reach of 0 leaves one exponent, and it belongs to zero
            bits = build.select(
                build.compare(field, "le", build.constant((bias - reach) << mantissa, whole)),
                sign,
                bits,
            )
        rounded = Node.of(convert.Bitcast(dtype), bits)
        return build.select(build.compare(x, "ne", x), x, rounded)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        given = [(8, 7), (5, 10), (4, 3), (8, 23), (11, 52), (2, 0)]
        samples = [
            Sample((Type(DType.F32, (3, 17)),), {"exponent_bits": e, "mantissa_bits": m}, (d,))
            for e, m in given
            for d in ("normal", "special")
        ]
        return samples + [
            Sample((Type(d, (17,)),), {"exponent_bits": 5, "mantissa_bits": 2})
            for d in DType
            if d in FLOATS
        ]
