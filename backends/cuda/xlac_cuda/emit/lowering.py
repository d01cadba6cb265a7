"""What CUDA's text spells itself, and a program in that, every kernel a grid."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from xlac_cuda.emit.dialect import CUDA
from xlac_sdk.dtypes import DType
from xlac_sdk.emit.alignment import alignments
from xlac_sdk.kernel_ir.grid import spread
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.rewrite import KernelRewriter
from xlac_sdk.lowering.legalize import legalize
from xlac_sdk.programs.program import Program, Role, Slot
from xlac_sdk.programs.rewrite import with_kernels
from xlac_sdk.target import Target

P = Primitive
NATIVE = frozenset({*CUDA.floats, *CUDA.integers, *CUDA.bools, P.CAST, P.BITCAST})
# bytes: of what callers give, and of constants, as the widest access has it; others are copied
# first
ALIGNMENT = 16
MEMORY = 256  # bytes: of blocks of device memory
# CUDA's are off by up to 4 and 3 units in the last place
LACKS = frozenset({(P.POW, DType.F32), (P.ATAN2, DType.F32)})


def lowered(program: Program, target: Target) -> Program:
    """The program as it is launched: the kernels that the text has, with the same names and
    parameters.
    """
    fast = program.facts.get("precision") == "fast"
    known = alignments(program, _start)
    return with_kernels(
        program, lambda kernel: spread(legalize(_aligned(kernel, known[kernel]), target, fast))
    )


def _start(slot: Slot) -> int:
    """What the address of a slot is a multiple of."""
    ours = slot.role in (Role.TEMPORARY, Role.STATE)
    return gcd(MEMORY, slot.offset) if ours else ALIGNMENT


def _aligned(kernel: Kernel, known: tuple[int, ...]) -> Kernel:
    """The kernel with parameters that say how they are aligned in this program."""
    changed = {
        b: replace(b, align=a)
        for b, a in zip(kernel.parameters, known, strict=True)
        if b.align != a
    }
    if not changed:
        return kernel
    parameters = tuple(changed.get(b, b) for b in kernel.parameters)
    return replace(
        kernel, parameters=parameters, body=KernelRewriter(buffers=changed).block(kernel.body)
    )


def arch_of(target: Target) -> str:
    """The architecture that a target's facts name."""
    return str(target.machine["arch"])
