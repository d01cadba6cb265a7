"""Mutable names become LLVM values, merged where loops and conditions do."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from cpu_programs import both, kernel_of, machine, program_of, same

from xlac_cpu import BACKEND
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.build import Builder, apply, load, ramp, splat
from xlac_sdk.kernel_ir.kernel import Buffer, Const, Expr, If, Kernel, LoopKind, Var
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive
I64 = DType.I64
LANES, COUNT = 4, 12


class _Draw:
    """Random statements over a few mutable names, scalar and vector, and read ones."""

    def __init__(self, seed: int, builder: Builder, given: Buffer) -> None:
        self.random, self.builder, self.given = random.Random(seed), builder, given

    def value(self, names: list[Expr], lanes: int) -> Expr:
        one = self.random.choice([n for n in names if n.lanes in (1, lanes)])
        other = self.random.choice([Const(self.random.randrange(9), I64), *names])
        other = other if other.lanes in (1, lanes) else Const(3, I64)
        kind = self.random.choice([P.ADD, P.SUB, P.XOR])
        return splat(apply(kind, one, other), lanes)

    def bound(self) -> Expr:
        """The end of a loop: known, or between 0 and 3 by what is read."""
        if self.random.random() < 0.4:
            return Const(self.random.randrange(1, 4), I64)
        return load(self.given, Const(self.random.randrange(COUNT), I64))

    def block(self, mutable: list[Var], names: list[Expr], depth: int) -> None:
        b = self.builder
        mutable, names = [*mutable], [*names]
        for _ in range(self.random.randrange(1, 5)):
            kind = self.random.choice(
                ["assign", "new", "loop", "if", "else"] if depth else ["assign"]
            )
            if kind == "assign":
                var = self.random.choice(mutable)
                b.assign(var, self.value(names, var.lanes))
            elif kind == "new":
                lanes = self.random.choice([1, LANES])
                mutable.append(b.variable("v", self.value(names, lanes)))
                names.append(mutable[-1])
            elif kind == "loop":
                unrolled = self.random.random() < 0.3
                end = Const(2, I64) if unrolled else self.bound()
                how = LoopKind.UNROLLED if unrolled else LoopKind.SERIAL
                with b.loop("i", 0, end, kind=how) as i:
                    self.block(mutable, [*names, i], depth - 1)
            else:
                condition = apply(P.LT, load(self.given, Const(0, I64)), self.bound())
                with b.block() as then:
                    self.block(mutable, names, depth - 1)
                with b.block() as otherwise:
                    if kind == "else":
                        self.block(mutable, names, depth - 1)
                b.emit(If(condition, tuple(then), tuple(otherwise)))


def drawn(seed: int) -> Kernel:
    """A kernel of random statements, which stores its mutable names at its end."""

    def body(b: Builder, buffers: dict[str, Buffer]) -> None:
        draw = _Draw(seed, b, buffers["x"])
        first = load(buffers["x"], Const(1, I64))
        mutable = [
            b.variable("s", first),
            b.variable("v", splat(first, LANES)),
            b.variable("w", load(buffers["x"], ramp(2, 1, LANES))),
        ]
        draw.block(mutable, [*mutable], 3)
        b.store(buffers["scalar"], 0, mutable[0])
        b.store(buffers["vector"], ramp(0, 1, LANES), mutable[1])
        b.store(buffers["vector"], ramp(LANES, 1, LANES), mutable[2])

    return kernel_of(body, {"x": (I64, COUNT)}, {"scalar": (I64, 1), "vector": (I64, 2 * LANES)})


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.sampled(12)
def test_random_control_flow(seed: int) -> None:
    kernel = drawn(seed)
    given = np.random.default_rng(seed).integers(0, 4, COUNT)
    ours, right = both(kernel, machine(), x=given)
    assert same(ours["scalar"], right["scalar"]) and same(ours["vector"], right["vector"])


def test_they_take_no_memory() -> None:
    """Text that stores and loads them costs twice as many lines as that of their values."""
    target = machine()
    for seed in range(10):
        text = BACKEND.emit(program_of(drawn(seed)), target)["program.ll"]
        function = re.search(r"^define [^\n]*@k0_kernel\(.*?^}$", text, re.DOTALL | re.MULTILINE)
        assert function is not None
        assert "alloca" not in function[0]
