"""The range of values of an index, as far as its variables' bounds imply it."""

from __future__ import annotations

from math import gcd

from xlac_sdk.kernel_ir.kernel import Apply, Const, Expr, Ramp, Splat, Var
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive


def bounds(expr: Expr) -> tuple[int | None, int | None]:
    """The minimum and maximum of a scalar or vector index, if known."""
    match expr:
        case Const(value=value):
            return int(value), int(value)
        case Var(low=low, high=high):
            return low, high
        case Splat(value=value):
            return bounds(value)
        case Ramp(base=base, stride=stride, lanes=lanes):
            low, high = bounds(base)
            span = stride * (lanes - 1)
            return (None if low is None else low + min(span, 0)), (
                None if high is None else high + max(span, 0)
            )
        case Apply(Primitive.ADD, (a, b)):
            (al, ah), (bl, bh) = bounds(a), bounds(b)
            return (None if al is None or bl is None else al + bl), (
                None if ah is None or bh is None else ah + bh
            )
        case Apply(Primitive.MUL, (a, Const(value=value))):
            k = int(value)
            low, high = bounds(a)
            ends = [None if e is None else e * k for e in (low, high)]
            return (ends[0], ends[1]) if k >= 0 else (ends[1], ends[0])
        case Apply(Primitive.MUL, (a, b)):
            (al, ah), (bl, bh) = bounds(a), bounds(b)
            if al is not None and bl is not None and al >= 0 and bl >= 0:
                return al * bl, None if ah is None or bh is None else ah * bh
        case Apply(Primitive.REM, (a, Const(value=value))) if int(value) > 0:
            low = bounds(a)[0]
            return (0, int(value) - 1) if low is not None and low >= 0 else (None, None)
        case Apply(Primitive.DIV, (a, Const(value=value))) if int(value) > 0:
            low, high = bounds(a)
            if low is not None and low >= 0:
                return low // int(value), None if high is None else high // int(value)
        case Apply(Primitive.DIV | Primitive.REM as primitive, (a, b)):
            (al, ah), (bl, bh) = bounds(a), bounds(b)
            if al is not None and bl is not None and al >= 0 and bl >= 0:
                if primitive is P.REM and bh is not None:
                    return 0, bh if ah is None else min(ah, bh)
                return 0, ah
    return None, None


def multiple(expr: Expr) -> int:
    """A positive divisor of every value of a scalar index (0 if the value is 0)."""
    match expr:
        case Const(value=value):
            return abs(int(value))
        case Var(multiple=known):
            return known
        case Apply(Primitive.ADD, (a, b)):
            return gcd(multiple(a), multiple(b))
        case Apply(Primitive.MUL, (a, b)):
            return multiple(a) * multiple(b)
    return 1
