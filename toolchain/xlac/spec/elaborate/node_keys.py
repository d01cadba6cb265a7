"""Keys shared by several kinds of entries: `when` and `else`, and flags and numbers that may be
arithmetic.
"""

from __future__ import annotations

from typing import Any

from xlac.ops.values import Weak
from xlac.spec.elaborate import arithmetic
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.evaluate import as_node, expression
from xlac.spec.elaborate.scope import Scope, Value
from xlac.spec.report import Fault, Place
from xlac.spec.schema import schema


def flag(scope: Scope, value: Any, place: Place) -> bool:
    """A bool that may be arithmetic. Raises Fault."""
    computed = arithmetic.value(value, scope.constants, place)
    if not isinstance(computed, bool):
        raise Fault("XL2006", f"expected true or false, and this is {computed!r}", place.span)
    return computed


def whole(scope: Scope, value: Any, place: Place, least: int, most: int) -> int:
    """A whole number that may be arithmetic. Raises Fault."""
    number = arithmetic.value(value, scope.constants, place)
    if isinstance(number, bool) or not isinstance(number, int):
        raise Fault("XL2006", f"expected a whole number, and this is {number}", place.span)
    if not least <= number <= most:
        raise Fault("XL2006", f"expected {least} to {most:,}, and this is {number:,}", place.span)
    return number


def otherwise(
    context: Elaboration,
    scope: Scope,
    spec: schema.OpNode | schema.BlockNode,
    path: str,
    place: Place,
) -> Value | None:
    """The `else` value of a node whose `when` is false; None if it is true. Raises Fault."""
    if spec.when is True or flag(scope, spec.when, place.at("when")):
        return None
    if spec.otherwise is None:
        raise Fault("XL1011", "missing key 'else': the value when 'when' is false", place.key)
    computed = expression(context, scope, spec.otherwise, path, place.at("else"))
    if isinstance(computed, int | float | Weak):
        return as_node(context, computed, spec.otherwise, path, place.at("else"))
    return computed
