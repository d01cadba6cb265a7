"""Copies that a device cannot make, as kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import gcd

from xlac_sdk.dims import divisor
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Kernel, LoopKind, Var
from xlac_sdk.kernel_ir.sums import INDEX
from xlac_sdk.lowering.alignment import known
from xlac_sdk.programs.program import Copy, Launch, Program, Slot, Step
from xlac_sdk.programs.rewrite import with_leaves

GRAIN = 1 << 12  # elements that are worth a task


def copies_as_kernels(program: Program, least: int, start: Callable[[Slot], int]) -> Program:
    """The program with kernels in place of its copies whose places or bytes are not known to be
    multiples of `least` bytes (`Target.copy_alignment`); `start` gives the alignment of a slot.
    """
    if least == 1:
        return program

    def visit(step: Step) -> tuple[Step, ...]:
        if not isinstance(step, Copy):
            return (step,)
        dtype = step.source.slot.dtype
        places = known(step.target, start), known(step.source, start)
        if gcd(divisor(step.count) * dtype.nbytes, *places) % least == 0:
            return (step,)
        return (Launch(copying(dtype), (step.source, step.target), (step.count,)),)

    return with_leaves(program, visit)


@cache
def copying(dtype: DType) -> Kernel:
    """A kernel that copies so many elements of a type as its size says, each at any place."""
    size = Var("count", INDEX, low=0)
    source = Buffer("source", dtype, size, align=1)
    target = Buffer("target", dtype, size, access=Access.WRITE, align=1)
    b = build.Builder()
    with b.loop("i", 0, size, kind=LoopKind.PARALLEL, grain=GRAIN) as i:
        b.store(target, i, build.load(source, i))
    return Kernel(f"copy_{dtype}", (source, target), b.body(), (size,))
