"""Elaborates operations: `{op: …, in: …}` with attributes and learned tensors."""

from __future__ import annotations

from typing import Any

from xlac.ir.graph import Node
from xlac.ir.op import Op
from xlac.ops.values import Weak
from xlac.spec.elaborate import arithmetic, attributes, type_text
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.evaluate import as_node, expression
from xlac.spec.elaborate.literal import literal
from xlac.spec.elaborate.node_keys import flag, otherwise
from xlac.spec.elaborate.operations import (
    LITERALS,
    Operand,
    apply,
    fields,
    find,
    operand_names,
    table,
)
from xlac.spec.elaborate.scope import Copies, Scope, Value
from xlac.spec.report import Fault, Place, Poisoned, nearest
from xlac.spec.schema import schema
from xlac.spec.text.spans import NodeSpans


def operation(
    context: Elaboration, scope: Scope, spec: schema.OpNode, path: str, place: Place
) -> Value:
    """`{op: …, in: …}`. Raises Fault or Poisoned."""
    if (other := otherwise(context, scope, spec, path, place)) is not None:
        return other
    name = arithmetic.value(spec.op, scope.constants, place.at("op"))
    spans = NodeSpans(place, spec)
    if not isinstance(name, str):
        raise Fault("XL2001", f"an operation is a name, not {name!r}", spans.name())
    if name in context.custom:
        return context.handlers.custom_node(context, scope, name, spec, path, place)
    if name in LITERALS:
        return literal(context, scope, name, spec, path, place)
    op = (
        table()["call"]
        if name == "call" and spec.body is not None
        else find(context, name, spans.name())
    )
    body = None
    if spec.body is not None:
        if not attributes.holds_body(op):
            raise Fault(
                "XL2005", f"unknown key 'body' for {name}: it runs no graph", place.at("body").key
            )
        body = context.handlers.function(context, scope, spec.body, path, place.at("body"))
    given, learned, poisoned = values(context, scope, spec, op, name, path, place)
    operands = inputs(context, scope, spec.inputs, operand_names(op), name, path, place)
    if poisoned:
        raise Poisoned
    exact = spec.exact is True or flag(scope, spec.exact, place.at("exact"))
    return apply(
        context, scope, name, operands, given, learned, path, spans, place.key, body, exact
    )


def values(
    context: Elaboration,
    scope: Scope,
    spec: schema.OpNode,
    op: type[Op],
    name: str,
    path: str,
    place: Place,
) -> tuple[dict[str, Any], dict[str, Node], bool]:
    """The other keys of a node: attributes, given learned tensors, and whether one of them was
    wrong and reported.
    """
    allowed = fields(context, name) or frozenset()
    given: dict[str, Any] = {}
    learned: dict[str, Node] = {}
    poisoned = False
    for key, value in spec.attributes.items():
        at = place.at(key)
        try:
            if (
                key in allowed
                or op.parameters is Op.parameters
                or not isinstance(value, str)
                or value.startswith("$")
            ):
                given[key] = arithmetic.value(value, scope.constants, at)
                if key in attributes.types_in(op):
                    given[key] = types(given[key], scope, at)
            else:
                computed = expression(context, scope, value, f"{path}.{key}", at)
                learned[key] = as_node(context, computed, value, f"{path}.{key}", at)
        except Fault as fault:
            if key in attributes.flags(op) and fault.diagnostic.code == "XL2002":
                given[key] = value  # an attribute after all, of the wrong type
                continue
            poisoned = True
            if fault.diagnostic.code == "XL2002" and "." not in str(value):
                context.report.add(
                    "XL2005",
                    f"unknown key {key!r} for {name}",
                    at.key,
                    nearest(key, [*sorted(allowed), "in"]),
                )
            else:
                context.report.fault(fault)
    return given, learned, poisoned


def types(given: Any, scope: Scope, place: Place) -> Any:
    """Converts the text of types in attributes. Raises Fault."""
    if isinstance(given, list):
        return [types(item, scope, place.at(i)) for i, item in enumerate(given)]
    return type_text.type_value(given, scope.constants, place) if isinstance(given, str) else given


def inputs(
    context: Elaboration,
    scope: Scope,
    given: Any,
    names: list[str],
    called: str,
    path: str,
    place: Place,
) -> list[Operand]:
    """The `in` of a node, in the order of the operands. All faults but the last go to the report;
    the last is raised.
    """
    items: list[tuple[Any, Place]]
    at = place.at("in")
    if isinstance(given, dict):
        unknown = [key for key in given if key not in names]
        for key in unknown:
            context.report.add(
                "XL2005", f"{called} has no input {key!r}", at.at(key).key, nearest(key, names)
            )
        if unknown:
            raise Poisoned
        ordered = [name for name in names if name in given]
        if (
            missing := next((n for n in names[: len(ordered)] if n not in given), None)
        ) is not None:
            raise Fault(
                "XL2008", f"{called} needs its input {missing!r} before {ordered[-1]!r}", at.key
            )
        items = [(given[name], at.at(name)) for name in ordered]
    elif isinstance(given, list):
        items = [(item, at.at(i)) for i, item in enumerate(given)]
    else:
        items = [(given, at)]
    operands: list[Operand] = []
    failures: list[Fault | Poisoned] = []
    for item, spot in items:
        try:
            value = expression(context, scope, item, path, spot)
            if isinstance(value, Copies) and len(items) == 1 and names[-1:] and called == "concat":
                operands += [as_node(context, one, item, path, spot) for one in value.items]
            else:
                operands.append(
                    value
                    if isinstance(value, int | float | Weak)
                    else as_node(context, value, item, path, spot)
                )
        except Fault as fault:
            context.report.fault(fault)
            failures.append(fault)
        except Poisoned as poisoned:
            failures.append(poisoned)
    if failures:
        raise Poisoned
    return operands
