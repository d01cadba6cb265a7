"""Weak arithmetic of a target (`xlac_sdk.arithmetic`) in legalization: what is repaired, by forms
of `lowering/math`, and what is refused.
"""

from __future__ import annotations

from dataclasses import replace

from xlac_sdk.arithmetic import REPAIRABLE_ULP
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Expr, Fold, Shuffle
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.lowering.math import FORMS
from xlac_sdk.lowering.math.writer import Writer
from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.target import Target


def without_flushing(target: Target) -> Target:
    """The target for `precision: fast`, which lets subnormal numbers be lost."""
    kept = frozenset(one for one in target.weak if not one.flushes_only)
    return target if kept == target.weak else replace(target, weak=kept)


def check_repairable(target: Target, primitive: Primitive, kind: DType) -> None:
    """Raises UnsupportedError for weak arithmetic of which no exact one can be made."""
    stated = target.weakness(primitive, kind)
    far = primitive is Primitive.DIV and any(one.ulp > REPAIRABLE_ULP for one in stated)
    if primitive in FORMS and not far:
        return
    problem = f"target '{target.name}' computes '{primitive.value}' of {kind} inexactly"
    hint = "another target, or a cast to another type"
    if all(one.flushes_only for one in stated):
        problem = f"target '{target.name}' flushes subnormals in '{primitive.value}' of {kind}"
        hint = "`precision: fast` in the spec allows it"
    problem += ", and that cannot be repaired"
    raise UnsupportedError(Diagnostic("XL5010", problem, hint=hint))


def folds_weakly(target: Target, fold: Fold) -> bool:
    """Whether a fold combines lanes by a primitive whose native form is weak."""
    stated = target.weakness(fold.primitive, fold.value.dtype) if target.weak else ()
    return any(not one.serves for one in stated)


def folded(m: Writer, primitive: Primitive, value: Expr) -> Expr:
    """The lanes combined by the exact form, half by half; those of an odd number overlap, which
    maxima and minima, the only ones that can be repaired, do not mind.
    """
    check_repairable(m.target, primitive, value.dtype)
    named = m.value(value)
    while named.lanes > 1:
        count, whole = (named.lanes + 1) // 2, named.lanes
        parts = (
            m.value(Shuffle((named.expr,), tuple(range(start, start + count))))
            for start in (0, whole - count)
        )
        named = m.expand(primitive, *parts)
    return named.expr
