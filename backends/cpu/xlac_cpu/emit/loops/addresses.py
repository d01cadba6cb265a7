"""Addresses in loops: what does not change in a loop is added up before it.

LLVM's loop strength reduction takes the sums of indices apart and tries their terms in all
registers: a quarter of all of its time. A frozen sum is one term to it, which stays in a register
as the parts would have done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlac_sdk.kernel_ir.kernel import Apply, Const, Expr, Var
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.sums import INDEX, terms, total

if TYPE_CHECKING:
    from xlac_cpu.emit.expressions import LlvmExpressions

P = Primitive
HELD = 3  # sums that a loop holds at most; further ones are left to LLVM, which may share registers
_SUMS = frozenset({P.ADD, P.SUB, P.MUL, P.MIN, P.MAX})
_QUOTIENTS = frozenset({P.DIV, P.REM})


def split(e: LlvmExpressions, base: str, element: str, index: Expr) -> tuple[str, Expr]:
    """The address to which the part of an index is added that changes in the loop, and that part;
    as they are where the loop is not innermost, or nothing or everything changes.
    """
    w = e.w
    if w.preheader is None or isinstance(index, Const | Var) or index.dtype is not INDEX:
        return base, index
    parts = terms(index)
    fixed = {term: factor for term, factor in parts.items() if _is_fixed(e, term)}
    if not fixed or len(fixed) == len(parts):
        return base, index
    memo, e.memo = e.memo, {}
    with w.ahead() as here:
        offset = e.index(total(fixed))
        held = f"freeze i64 {offset}"
        room = held in here.known or here.held < HELD
        if room and offset[0] == "%":
            here.held += held not in here.known
            base = w.op(f"getelementptr {element}, ptr {base}, i64 {w.op(held)}")
    e.memo = memo
    if not room or offset[0] != "%":
        return base, index
    moving = total({term: factor for term, factor in parts.items() if term not in fixed})
    e.alive.append(moving)  # values are known by the identity of their expressions
    return base, moving


def _is_fixed(e: LlvmExpressions, expr: Expr) -> bool:
    """Whether an index may be computed before the loop: without memory, and without a division
    that the loop may not come to.
    """
    match expr:
        case Const():
            return True
        case Var(name=name, lanes=1):
            return name not in e.w.current and e.w.is_before(e.names[name])
        case Apply(primitive=primitive, operands=operands, dtype=dtype, lanes=1) if dtype is INDEX:
            if primitive in _QUOTIENTS:
                by = operands[1]
                return isinstance(by, Const) and by.value > 0 and _is_fixed(e, operands[0])
            return primitive in _SUMS and all(_is_fixed(e, one) for one in operands)
    return False
