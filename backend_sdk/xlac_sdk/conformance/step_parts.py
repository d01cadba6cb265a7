"""Slots, kernels and programs that cases of steps are built from."""

from __future__ import annotations

import numpy as np

from xlac_sdk.dtypes import Array, DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Const, Expr, Kernel, Var
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.programs.program import Program, Role, Slot, Step

P, F32, I32, BOOL = Primitive, DType.F32, DType.I32, DType.BOOL


N = 6


def slot_of(name: str, role: Role, dtype: DType = F32, size: int = N, offset: int = 0) -> Slot:
    """A slot of `size` elements."""
    return Slot(name, f"s_{name}" if name.isidentifier() else "s_odd", dtype, (size,), role, offset)


def program_of(
    slots: tuple[Slot, ...], steps: tuple[Step, ...], arena: int = 0, **more: object
) -> Program:
    """A program of these slots and steps; `constants` by symbol."""
    inputs = tuple(s for s in slots if s.role is Role.INPUT)
    outputs = tuple(s for s in slots if s.role is Role.OUTPUT)
    constants: dict[str, Array] = more.get("constants", {})  # type: ignore[assignment]
    state_bytes = 64 * sum(s.role is Role.STATE for s in slots)
    return Program("conformance", inputs, outputs, slots, steps, constants, arena, state_bytes)


def affine(
    name: str, factor: float, term: float, size: int | Var = N, update: bool = False
) -> Kernel:
    """y = factor * x + term, or y = factor * y + x for `update`."""
    x = Buffer("x", F32, size, align=1)
    y = Buffer("y", F32, size, access=Access.UPDATE if update else Access.WRITE, align=1)
    b = build.Builder()
    with b.loop("i", 0, size) as i:
        base: Expr = build.load(y if update else x, i)
        added: Expr = build.load(x, i) if update else Const(term, F32)
        b.store(y, i, build.apply(P.ADD, build.apply(P.MUL, base, Const(factor, F32)), added))
    return Kernel(name, (x, y), b.body(), (size,) if isinstance(size, Var) else ())


def numbered(size: int = N) -> Array:
    """-1, -0.75, -0.5 and so on."""
    return (np.arange(size) / 4 - 1).astype(np.float32)
