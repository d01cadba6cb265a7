"""Buffers, numbers, slots and steps of which the verifiers' tests make kernels and programs."""

from __future__ import annotations

from xlac_sdk.dims import Symbol, symbol, symbols
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Const, Var
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.programs.program import Argument, Copy, Program, Role, Slot, Step

P, F32, F16, I64, BOOL = Primitive, DType.F32, DType.F16, DType.I64, DType.BOOL
X = Buffer("x", F32, 8)
Y = Buffer("y", F32, 8, access=Access.WRITE)
Z = Buffer("z", F32, 8, access=Access.REREAD)
H = Buffer("h", F16, 8)
ZERO, ONE, LAST = Const(0, I64), Const(1.0, F32), Const(1, I64)
I, V = Var("i", I64), Var("v", F32)


def slot(symbol: str, role: Role, size: int = 4, offset: int = 0) -> Slot:
    return Slot(symbol, symbol, F32, (size,), role, offset)


def program(
    slots: tuple[Slot, ...], *steps: Step, arena: int = 0, sizes: tuple[Symbol, ...] = ()
) -> Program:
    inputs, outputs = (tuple(s for s in slots if s.role is r) for r in (Role.INPUT, Role.OUTPUT))
    return Program("p", inputs, outputs, slots, steps, {}, arena, sizes=sizes)


A, B, T, U = (
    slot("a", Role.INPUT),
    slot("b", Role.OUTPUT),
    slot("t", Role.TEMPORARY),
    slot("u", Role.TEMPORARY),
)


def copy(
    target: Slot, source: Slot, *, at: int = 0, strides: tuple[tuple[str, int], ...] = ()
) -> Copy:
    return Copy(Argument(target, at, strides), Argument(source), 4)


OPEN = symbol("n", 2, 8, multiple_of=2)
(N,), (K,) = symbols(OPEN), symbols(symbol("k"))
