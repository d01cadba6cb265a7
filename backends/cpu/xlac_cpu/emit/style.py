"""How text is written for a machine."""

from __future__ import annotations

from dataclasses import dataclass

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive


@dataclass(frozen=True, slots=True)
class Style:
    """What of the target changes the text of a kernel."""

    half: bool = False  # f16 converts in hardware
    threads: bool = False  # parallel loops take their range as arguments, atomics are atomic
    fence: str = ""  # orders streaming stores before whatever follows
    eager: bool = False  # LLVM would contract a product into every sum that uses it
    ternary: bool = False  # there is an instruction for any function of three operands' bits
    narrow: bool = False  # addresses have 32 bits
    # what functions of the module compute: see outlined.py
    calls: frozenset[tuple[Primitive, DType]] = frozenset()
