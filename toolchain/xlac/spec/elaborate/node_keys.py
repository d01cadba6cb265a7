"""Keys that several kinds of entries have: `when` and `else`, and flags and numbers that may be
arithmetic.
"""

from __future__ import annotations

from typing import Any

from xlac.spec.elaborate import arithmetic
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.evaluate import as_node, expression
from xlac.spec.elaborate.scope import Scope, Value
from xlac.spec.report import Fault, Place
from xlac.spec.schema import schema


def flag(scope: Scope, value: Any, place: Place) -> bool:
    """A true or false that may be arithmetic. Raises Fault."""
    found = arithmetic.value(value, scope.constants, place)
    if not isinstance(found, bool):
        raise Fault("XL2006", f"expected true or false, and this is {found!r}", place.span)
    return found


def whole(scope: Scope, value: Any, place: Place, least: int, most: int) -> int:
    """A whole number that may be arithmetic. Raises Fault."""
    found = arithmetic.value(value, scope.constants, place)
    if isinstance(found, bool) or not isinstance(found, int):
        raise Fault("XL2006", f"expected a whole number, and this is {found}", place.span)
    if not least <= found <= most:
        raise Fault("XL2006", f"expected {least} to {most:,}, and this is {found:,}", place.span)
    return found


def otherwise(
    context: Elaboration,
    scope: Scope,
    spec: schema.OpNode | schema.BlockNode,
    path: str,
    place: Place,
) -> Value | None:
    """The `else` of a node that is not there; None if it is there. Raises Fault."""
    if spec.when is True or flag(scope, spec.when, place.at("when")):
        return None
    if spec.otherwise is None:
        raise Fault("XL1011", "missing key 'else': the value when 'when' is false", place.key)
    found = expression(context, scope, spec.otherwise, path, place.at("else"))
    if isinstance(found, int | float):
        return as_node(context, found, spec.otherwise, path, place.at("else"))
    return found
