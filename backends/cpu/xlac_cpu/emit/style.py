"""Properties of a machine that affect the generated text."""

from __future__ import annotations

from dataclasses import dataclass

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive


@dataclass(frozen=True, slots=True)
class Style:
    """Properties of the target that affect the text of a kernel."""

    half: bool = False  # f16 converts in hardware
    threads: bool = False  # parallel loops take their range as arguments, and atomics are atomic
    fence: str = ""  # orders streaming stores before whatever follows
    eager: bool = False  # LLVM would contract a product into every sum that uses it
    # whether there is an instruction for any bitwise function of three operands
    ternary: bool = False
    narrow: bool = False  # addresses have 32 bits
    dots: str = ""  # see Machine
    tables: str = ""  # likewise
    matrix: bool = False  # AMX multiplies tiles of bytes
    nearest: bool = False  # vectors are converted to the nearest integers, ties to even
    lanes: int = 4  # 32-bit lanes of a register
    in_step: bool = False  # LLVM would write the registers of a long vector one after the other
    big_endian: bool = False  # the highest byte of a number lies first
    # spellings of functions in the module: see outlined.py
    calls: frozenset[tuple[Primitive, DType]] = frozenset()
