"""Indices brought into range, with no more comparisons than their bounds leave open."""

from __future__ import annotations

from xlac.ir.dims import Dim, bounds
from xlac.ir.types import Type
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.kernel_ir.polynomial import is_below
from xlac_sdk.kernel_ir.primitives import Primitive


def both(a: Expr | None, b: Expr) -> Expr:
    """Both of two conditions; the second where there is no first."""
    return b if a is None else build.apply(Primitive.AND, a, b)


def clamp(position: Expr, last: Dim) -> Expr:
    """An index moved into 0..last, written only as far as its bounds do not show it already."""
    least, most = build.bounds(position)
    if least is None or least < 0:
        position = build.apply(Primitive.MAX, position, build.index(0))
    if exceeds(position, most, last):
        position = build.apply(Primitive.MIN, position, build.lift(last))
    return position


def may_be_empty(x: Type) -> bool:
    """Whether a value whose sizes are open may have no elements."""
    return not isinstance(x.size, int) and bounds(x.size)[0] <= 0


def exceeds(position: Expr, most: int | None, last: Dim) -> bool:
    """Whether an index of at most `most` may be beyond `last`."""
    if isinstance(last, int):
        return most is None or most > last
    return position.lanes > 1 or not is_below(position, build.lift(last + 1))
