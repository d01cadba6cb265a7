"""Value ranges of integer expressions, as far as variables' bounds imply them; they let emitters
write plain arithmetic.
"""

from __future__ import annotations

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Apply, Const, Expr, Ramp, Splat, Var
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.sharing import walk

P = Primitive
Range = tuple[int, int] | None  # inclusive bounds; None if unknown


def type_range(dtype: DType) -> tuple[int, int]:
    """The minimum and maximum of an integer type or bool."""
    if dtype is DType.BOOL:
        return 0, 1
    low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
    return low, low + (1 << dtype.bits) - 1


def fits(known: Range, dtype: DType) -> bool:
    """Whether a type can represent every value of a range."""
    low, high = type_range(dtype)
    return known is not None and low <= known[0] and known[1] <= high


def combined(primitive: Primitive, a: Range, b: Range) -> Range:
    """The range of exact arithmetic on two ranges; None if unknown."""
    if a is None or b is None:
        return None
    match primitive:
        case Primitive.ADD:
            return a[0] + b[0], a[1] + b[1]
        case Primitive.SUB:
            return a[0] - b[1], a[1] - b[0]
        case Primitive.MUL:
            ends = [x * y for x in a for y in b]
            return min(ends), max(ends)
        case Primitive.DIV if a[0] >= 0 and b[0] > 0:
            return a[0] // b[1], a[1] // b[0]
        case Primitive.REM if a[0] >= 0 and b[0] > 0:
            return 0, min(a[1], b[1] - 1)
    return None


class Ranges:
    """Ranges of expressions, cached by identity."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Expr, Range]] = {}

    def __call__(self, expr: Expr) -> Range:
        if id(expr) not in self._known:
            for one in walk([expr]):
                if id(one) not in self._known:
                    self._known[id(one)] = one, self._of(one)
        return self._known[id(expr)][1]

    def _of(self, expr: Expr) -> Range:
        match expr:
            case Const(value=value, dtype=dtype) if dtype.is_integer:
                return int(value), int(value)
            case Var(low=low, high=high) if low is not None and high is not None:
                return low, high
            case Splat(value=value):
                return self._known[id(value)][1]
            case Ramp(base=base, stride=stride, lanes=lanes, dtype=dtype) if (
                start := self._known[id(base)][1]
            ) is not None:
                last = stride * (lanes - 1)
                reach = start[0] + min(0, last), start[1] + max(0, last)
                return reach if fits(reach, dtype) else None
            case Apply(primitive=primitive, operands=(a, b), dtype=dtype) if dtype.is_integer:
                bounds = combined(primitive, self._known[id(a)][1], self._known[id(b)][1])
                return bounds if fits(bounds, dtype) else None
        return None
