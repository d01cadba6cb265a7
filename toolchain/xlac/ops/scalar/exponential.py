"""Exponentials and logarithms, as scalar primitives."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlac.ir.faults import INFINITY
from xlac.ir.op import Array, Index, Operand, Sample, declare
from xlac.ir.types import Type
from xlac.ops import numeric
from xlac.ops.checks import FLOATS
from xlac.ops.scalar.primitive import Unary
from xlac.ops.tensor.leaf import convert_element
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build as kernel_build
from xlac_sdk.kernel_ir.kernel import Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive


@declare
class Exp(Unary):
    """e to the power x; with `flush`, 0 where that is smaller than the smallest normal number.

    What computes with subnormal numbers is many times slower on some processors.
    """

    mnemonic, primitive = "exp", Primitive.EXP
    creates = frozenset({INFINITY})
    derivatives = ("t * result",)
    flush: bool = False

    def evaluate(self, *arrays: Array) -> Array:
        if not self.flush:
            return super().evaluate(*arrays)
        wide = numeric.widen(arrays[0])
        powers = numeric.scalar(self.primitive, wide)
        whole = np.where(powers < np.finfo(wide.dtype).tiny, 0, powers)
        return numeric.narrow(whole.astype(wide.dtype), arrays[0].dtype)

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        if not self.flush:
            return super().element(at, result, *inputs)
        return convert_element(flushed_exp(inputs[0].read(at)), result.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        flushed = [Sample((Type(d, (7, 33)),), {"flush": True}) for d in DType if d in FLOATS]
        return [*super().samples(), *flushed]


def flushed_exp(x: Expr) -> Expr:
    """`exp` with `flush` of an element, or a vector of them, in the compute type."""
    wide = kernel_build.cast(x, x.dtype.compute)
    least = kernel_build.splat(Const(LEAST[wide.dtype], wide.dtype), wide.lanes)
    never = kernel_build.splat(Const(-math.inf, wide.dtype), wide.lanes)
    tiny = kernel_build.apply(Primitive.LT, wide, least)
    return kernel_build.apply(Primitive.EXP, kernel_build.select(tiny, never, wide))


LEAST = {
    dtype: float(np.log(np.finfo(dtype.numpy).tiny).astype(dtype.numpy))
    for dtype in (DType.F32, DType.F64)
}
"""The logarithm of the smallest normal number."""


@declare
class Expm1(Unary):
    """exp(x) - 1, accurate near 0."""

    mnemonic, primitive = "expm1", Primitive.EXPM1
    creates = frozenset({INFINITY})
    derivatives = ("t * (result + 1)",)


@declare
class Log(Unary):
    """The natural logarithm; NaN below 0, -inf at 0."""

    mnemonic, primitive, draws = "log", Primitive.LOG, ("positive",)
    derivatives = ("t / x",)


@declare
class Log1p(Unary):
    """log(1 + x), accurate near 0."""

    mnemonic, primitive, draws = "log1p", Primitive.LOG1P, ("positive",)
    derivatives = ("t / (x + 1)",)
