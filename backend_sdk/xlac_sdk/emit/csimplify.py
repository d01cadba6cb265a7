"""Simplifications of C text: outer parentheses, and comparisons with a known result."""

from __future__ import annotations

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.ranges import type_range

P = Primitive


def unwrapped(text: str) -> str:
    """A text without outer parentheses, unless they enclose top-level commas, which would end a
    declaration.
    """
    return text[1:-1] if text.startswith("(") and _removable(text) else text


def _removable(text: str) -> bool:
    """Whether the first parenthesis is closed by the last character, and all commas are inside
    further parentheses.
    """
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return at == len(text) - 1
        if depth == 1 and character == ",":
            return False
    return False


def settled(primitive: Primitive, operands: tuple[Expr, ...], dtype: DType) -> bool | None:
    """The result of a comparison with the end of a type's range if it does not depend on the value:
    compilers warn about these.
    """
    low, high = type_range(dtype)
    a, b = operands
    if isinstance(b, Const):
        if primitive is P.LT and b.value == low:
            return False
        if primitive is P.LE and b.value == high:
            return True
    if isinstance(a, Const):
        if primitive is P.LT and a.value == high:
            return False
        if primitive is P.LE and a.value == low:
            return True
    return None
