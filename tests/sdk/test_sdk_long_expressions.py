"""Random expressions of 64-bit integers as words, against NumPy."""

from __future__ import annotations

import random

import numpy as np
import pytest
from long_integers import LONG, PLAIN, RICH, check, of_expression

from xlac_sdk.conformance.values import special
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Apply, Buffer, Const, Expr, Load
from xlac_sdk.kernel_ir.primitives import Primitive

P, I32, U32, F32 = Primitive, DType.I32, DType.U32, DType.F32
I64, U64 = LONG
LANES = 32
BINARY = (P.ADD, P.SUB, P.MUL, P.DIV, P.REM, P.MAX, P.MIN, P.AND, P.OR, P.XOR, P.SHL, P.SHR)
UNARY = (P.NEG, P.NOT, P.ABS, P.POPCNT, P.CLZ)
KINDS = (I64, U64, I64, U64, I32, U32)


class RandomExpression:
    """A random expression of integers, most of 64 bits, over vectors in memory, narrow and wide
    constants, conversions, comparisons and choices.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.inputs = [Buffer(f"x_{d}", d, LANES) for d in (I64, U64, I32, U32, F32)]
        numbers = np.random.default_rng(seed)
        self.given: dict[str, Array] = {}
        for buffer in self.inputs:
            pool = special(buffer.dtype)
            chosen = numbers.choice(pool, LANES)
            drawn = numbers.integers(0, 256, LANES * buffer.dtype.nbytes).astype(np.uint8)
            wild = drawn.view(buffer.dtype.numpy)
            if buffer.dtype is F32:  # of every exponent that an integer may have
                wild = numbers.standard_normal(LANES) * 2.0 ** numbers.integers(-2, 70, LANES)
            small = numbers.integers(0, 100, LANES)
            parts = np.choose(numbers.integers(0, 3, LANES), (0, 1, 2))
            wild, small = wild.astype(chosen.dtype), small.astype(chosen.dtype)
            self.given[buffer.name] = np.where(
                parts == 0, chosen, np.where(parts == 1, wild, small)
            )

    def leaf(self, dtype: DType) -> Expr:
        if self.rng.random() < 0.4:
            numbers = [*special(dtype).tolist(), 5, 10, 64, 1000]
            return Const(self.rng.choice(numbers), dtype, LANES)
        (buffer,) = (b for b in self.inputs if b.dtype is dtype)
        return Load(buffer, build.index(0), LANES)

    def integer(self, dtype: DType, depth: int) -> Expr:
        rng = self.rng
        if depth == 0:
            return self.leaf(dtype)
        match rng.randrange(8):
            case 0 | 1 | 2 | 3:
                primitive = rng.choice(BINARY)
                operands = tuple(self.integer(dtype, depth - 1) for _ in range(2))
                return Apply(primitive, operands, dtype, LANES)
            case 4:
                return Apply(rng.choice(UNARY), (self.integer(dtype, depth - 1),), dtype, LANES)
            case 5:
                other = rng.choice([d for d in KINDS if d is not dtype])
                return build.cast(self.integer(other, depth - 1), dtype)
            case 6:
                kind = rng.choice(KINDS)
                compared = tuple(self.integer(kind, depth - 1) for _ in range(2))
                test = rng.choice((P.LT, P.LE, P.EQ, P.NE))
                condition = Apply(test, compared, DType.BOOL, LANES)
                return build.select(
                    condition, self.integer(dtype, depth - 1), self.integer(dtype, depth - 1)
                )
        return build.cast(self.floating(depth - 1), dtype)

    def floating(self, depth: int) -> Expr:
        if depth <= 0 or self.rng.random() < 0.5:
            (buffer,) = (b for b in self.inputs if b.dtype is F32)
            return Load(buffer, build.index(0), LANES)
        return build.cast(self.integer(self.rng.choice(KINDS), depth - 1), F32)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.sampled(24)
def test_random_expressions(seed: int) -> None:
    for number in range(5):
        one = RandomExpression(seed * 1000 + number)
        dtype = one.rng.choice((*LONG, F32, I32))
        value = one.floating(5) if dtype is F32 else one.integer(dtype, 4)
        target = (RICH, PLAIN)[number % 2]
        check(of_expression(value, one.inputs, LANES), one.given, target)
