"""Keeps the registers of a long vector in step.

A vector of several registers is a chain of instructions for each. LLVM's scheduler wants few values
at once, so with few registers it writes one chain after the other, and a processor waits for each.
An empty piece of assembly that takes and gives all registers of a value stops that: none of them
goes on before all have come as far.
"""

from __future__ import annotations

from xlac_cpu.emit.lanes import picked
from xlac_cpu.emit.spelling import register
from xlac_cpu.emit.writer import LlvmWriter
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Apply, Expr
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive
CHAINS = 4  # registers of a vector that is kept in step
EVERY = 4  # operations of a chain: with one to four gelu takes the same time, with six 6 % more
_COUNTED = frozenset({P.FMA, P.MUL, P.ADD, P.SUB, P.DIV})
_ASM = 'asm sideeffect "", "=x,=x,=x,=x,0,1,2,3"'


class InStep:
    """Counts the operations of long vectors, and keeps every fourth result in step.
    `register_bytes` is the width of a register of x86, 0 where order is left to LLVM.
    """

    def __init__(self, w: LlvmWriter, register_bytes: int) -> None:
        self.w, self.register_bytes = w, register_bytes
        self.count = 0

    def __call__(self, value: Expr, text: str) -> str:
        """The text of the result of `value`, or of the same numbers kept in step."""
        if not self.register_bytes or not isinstance(value, Apply):
            return text
        dtype, lanes = value.dtype, value.lanes
        whole = lanes * dtype.nbytes == CHAINS * self.register_bytes
        if not whole or not dtype.is_float or dtype.is_half or value.primitive not in _COUNTED:
            return text
        self.count += 1
        return text if self.count % EVERY else self._kept(text, dtype, lanes)

    def _kept(self, text: str, dtype: DType, lanes: int) -> str:
        w, one = self.w, lanes // CHAINS
        kind, half, short = (register(dtype, n) for n in (lanes, 2 * one, one))
        parts = [picked(w, kind, text, range(n, n + one)) for n in range(0, lanes, one)]
        given = ", ".join(f"{short} {part}" for part in parts)
        every = f"{{ {', '.join([short] * CHAINS)} }}"
        kept = w.fresh(f"call {every} {_ASM}({given})")
        parts = [w.op(f"extractvalue {every} {kept}, {n}") for n in range(CHAINS)]
        pairs = [picked(w, short, a, range(2 * one), b) for a, b in (parts[:2], parts[2:])]
        return picked(w, half, pairs[0], range(lanes), pairs[1])
