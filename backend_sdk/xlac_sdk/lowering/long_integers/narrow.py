"""Where arithmetic on 64-bit integers stays within an i32: the bounds of its result."""

from __future__ import annotations

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.ranges import combined, fits
from xlac_sdk.lowering.long_integers.words import I32, Bounds, P

EXTREMES = {P.MAX: max, P.MIN: min}


def bounds_of(primitive: Primitive, given: tuple[Bounds, ...], dtype: DType) -> Bounds | None:
    """The bounds of a primitive on numbers of i64 or u64 within these; None where its result may
    be no i32, or the i32 form means something else.
    """
    found = _bounds(primitive, given, dtype is DType.I64)
    within = found is not None and fits(found, I32) and fits(found, dtype)
    return found if within else None


def _bounds(primitive: Primitive, given: tuple[Bounds, ...], signed: bool) -> Bounds | None:
    a, b = given[0], given[-1]
    match primitive:
        case P.ADD | P.SUB | P.MUL:
            return combined(primitive, a, b)
        case P.NEG:
            return -a[1], -a[0]
        case P.NOT if signed:
            return -a[1] - 1, -a[0] - 1
        case P.MAX | P.MIN:
            choose = EXTREMES[primitive]
            return choose(a[0], b[0]), choose(a[1], b[1])
        case P.DIV if signed or b[0] > 0:
            most = max(abs(a[0]), abs(a[1]), 1)  # by 0 it is -1
            return combined(primitive, a, b) or (-most, most)
        case P.REM:
            return min(a[0], 0), max(a[1], 0)
        case P.AND if b[0] >= 0 or a[0] >= 0:
            return 0, min(end[1] for end in (a, b) if end[0] >= 0)
        case P.AND | P.OR | P.XOR:
            bits = max(max(end, ~end).bit_length() for ends in (a, b) for end in ends)
            low = 0 if a[0] >= 0 and b[0] >= 0 else -(1 << bits)
            return low, (1 << bits) - 1
        case P.SHL if b[0] == b[1] and 0 <= b[0] < 32:
            return a[0] << b[0], a[1] << b[0]
        case P.SHR if b[0] == b[1] and 0 <= b[0] < 32:
            return a[0] >> b[0], a[1] >> b[0]
    return None
