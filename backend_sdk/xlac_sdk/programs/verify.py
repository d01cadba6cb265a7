"""Checks that a program says what its contract allows: its kernels (`kernel_ir/verify.py`), its steps
and its memory (`lifetimes.py`). A failure is a bug of the compiler.
"""

from __future__ import annotations

from xlac_sdk.kernel_ir.verify import applies, verify
from xlac_sdk.programs.lifetimes import check
from xlac_sdk.programs.program import Program

__all__ = ["applies", "verify", "verify_program"]


def verify_program(program: Program) -> None:
    """Raises VerifyError for the first thing wrong in the kernels, the steps or the placing of
    memory.
    """
    for kernel in program.kernels:
        verify(kernel)
    check(program)
