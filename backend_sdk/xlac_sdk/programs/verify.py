"""Verifies a program: its kernels (`kernel_ir/verify.py`), its steps and its memory
(`lifetimes.py`). A failure is a compiler bug.
"""

from __future__ import annotations

from xlac_sdk.kernel_ir.verify import applies, verify
from xlac_sdk.programs.lifetimes import check
from xlac_sdk.programs.program import Program

__all__ = ["applies", "verify", "verify_program"]


def verify_program(program: Program) -> None:
    """Raises VerifyError for the first error in the kernels, the steps or the memory plan."""
    for kernel in program.kernels:
        verify(kernel)
    check(program)
