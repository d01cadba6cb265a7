"""Sorts: the comparison of two records."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from xlac.codegen.core.elements import Elements
from xlac.ops.reduction.order import Sort
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive


def goes_before(elements: Elements, op: Sort, a: Sequence[Expr], b: Sequence[Expr]) -> Expr:
    """Whether record a sorts strictly before b."""
    if op.body is not None:
        both = [value for pair in zip(a, b, strict=True) for value in pair]
        return elements.inline(op.body, both)[0]
    if op.descending:
        a, b = b, a
    result: Expr | None = None
    for x, y in reversed(list(zip(a[: op.keys], b[: op.keys], strict=True))):
        less, equal = _compared(x, y)
        result = (
            less if result is None else build.apply(P.OR, less, build.apply(P.AND, equal, result))
        )
    assert result is not None
    return result


def kept_only(elements: Elements, op: Sort, place: Expr) -> AbstractContextManager[None]:
    """A block that runs for the positions of a sorted line that the operation keeps."""
    if op.kept is None:
        return nullcontext()
    return elements.builder.when(build.apply(P.LT, place, build.index(op.kept)))


def _compared(x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """Whether x is less than y, and whether they are equal, in the order with NaN last."""
    if x.dtype is DType.BOOL:
        x, y = build.cast(x, DType.U8), build.cast(y, DType.U8)
    less, equal = build.apply(P.LT, x, y), build.apply(P.EQ, x, y)
    if not x.dtype.is_float:
        return less, equal
    last_x, last_y = (build.apply(P.NE, v, v) for v in (x, y))
    only_y = build.apply(P.AND, last_y, build.apply(P.EQ, x, x))
    return build.apply(P.OR, less, only_y), build.apply(
        P.OR, equal, build.apply(P.AND, last_x, last_y)
    )
