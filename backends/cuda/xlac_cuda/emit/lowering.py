"""The primitives that CUDA C++ spells itself, and the legalization of programs to those, with every
kernel a grid.
"""

from __future__ import annotations

from math import gcd

from xlac_cuda.emit.dialect import CUDA
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.rewrite import aligned
from xlac_sdk.lowering.alignment import alignments
from xlac_sdk.lowering.legalize import legalize
from xlac_sdk.lowering.spread import spread
from xlac_sdk.programs.program import Program, Role, Slot
from xlac_sdk.programs.rewrite import with_kernels
from xlac_sdk.target import Target

P = Primitive
NATIVE = frozenset({*CUDA.floats, *CUDA.integers, *CUDA.bools, P.CAST, P.BITCAST})
# bytes of alignment of callers' arrays and constants, for the widest access; others are copied
# first
ALIGNMENT = 16
MEMORY = 256  # alignment of device memory allocations in bytes
# CUDA's functions have errors of up to 4 and 3 units in the last place
LACKS = frozenset({(P.POW, DType.F32), (P.ATAN2, DType.F32)})


def lowered(program: Program, target: Target) -> Program:
    """The program as it is launched: its kernels as emitted, with the same names and parameters."""
    fast = program.facts.get("precision") == "fast"
    known = alignments(program, _start)
    return with_kernels(
        program, lambda kernel: spread(legalize(aligned(kernel, known[kernel]), target, fast))
    )


def _start(slot: Slot) -> int:
    """The known alignment of a slot's address."""
    ours = slot.role in (Role.TEMPORARY, Role.STATE)
    return gcd(MEMORY, slot.offset) if ours else ALIGNMENT


def arch_of(target: Target) -> str:
    """The architecture in a target's facts."""
    return str(target.machine["arch"])
