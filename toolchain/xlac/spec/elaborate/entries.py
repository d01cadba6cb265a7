"""The entries of a graph, in the order they need each other: expressions, operations, blocks and
loops.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xlac.ir.graph import Node
from xlac.ir.op import Op
from xlac.spec.elaborate import arithmetic, attributes
from xlac.spec.elaborate.context import Context
from xlac.spec.elaborate.evaluate import as_node, expression
from xlac.spec.elaborate.operations import (
    LITERALS,
    Operand,
    apply,
    fields,
    find,
    operand_names,
    table,
)
from xlac.spec.elaborate.references import reads, split_names
from xlac.spec.elaborate.scope import Bundle, Copies, Scope, Value, in_order
from xlac.spec.report import Fault, Place, Poisoned, nearest
from xlac.spec.schema import schema
from xlac.spec.schema.document import BROKEN, Entry
from xlac.spec.text.spans import NodeSpans
from xlac_sdk.source import Origin
from xlac_sdk.support.limits import made


def entries_at(section: Mapping[str, Any], place: Place) -> dict[str, Entry[Any]]:
    """A graph section of one file with the place of every entry."""
    return {key: Entry(spec, place.at(key)) for key, spec in section.items()}


def elaborate(context: Context, scope: Scope, section: Mapping[str, Entry[Any]]) -> None:
    """Gives every entry of a section its value in the scope. What is wrong goes to the report."""
    owner: dict[str, str] = {}
    for key, entry in section.items():
        for name in split_names(key):
            if name in owner or name in scope.values:
                context.report.add("XL1021", f"{name!r} is given twice", entry.place.key)
            if name not in scope.values:
                owner.setdefault(name, key)
    scope.declared |= owner.keys()
    needs = {key: _needs(context, scope, key, entry, owner) for key, entry in section.items()}
    cycles: list[list[str]] = []
    order = list(in_order(section, needs, cycles))
    for cycle in cycles:
        path = " -> ".join(cycle)
        context.report.add(
            "XL2010",
            f"these nodes need each other: {path}",
            section[cycle[0]].place.key,
            "a value that one step hands to the next is the carry of a scan or while",
        )
        for key in cycle:
            for name in split_names(key):
                scope.values.setdefault(name, None)
    for key in order:
        made()
        names = split_names(key)
        if any(name in scope.values for name in names):
            continue
        entry = section[key]
        try:
            value = make(context, scope, key, entry.spec, entry.place)
            bind(scope, names, value, entry.place)
            call_by_origin(scope, names, entry)
        except Fault as fault:
            context.report.fault(fault)
        except Poisoned:
            pass
        for name in names:
            scope.values.setdefault(name, None)


def _needs(
    context: Context, scope: Scope, key: str, entry: Entry[Any], owner: Mapping[str, str]
) -> list[str]:
    found: dict[str, None] = {}
    try:
        for name in reads(entry.spec, scope.sees, lambda op: fields(context, op)):
            end = len(name)
            while end > 0:
                if name[:end] in owner:
                    found[owner[name[:end]]] = None
                    break
                if name[:end] in scope.values:
                    break
                end = name.rfind(".", 0, end)
    except RecursionError:
        raise Fault("XL4014", "nested too deeply", entry.place.key) from None
    return list(found)


def bind(scope: Scope, names: tuple[str, ...], value: Value, place: Place) -> None:
    """Names for a value, or for its results in order. Raises Fault."""
    if len(names) == 1:
        scope.values[names[0]] = value
        return
    results = (
        value.results
        if isinstance(value, Bundle)
        else value.items
        if isinstance(value, Copies)
        else (value,)
    )
    if len(results) != len(names):
        got = "one result" if len(results) == 1 else f"{len(results)} results"
        raise Fault("XL2012", f"{len(names)} names for {got}", place.key)
    for name, result in zip(names, results, strict=True):
        # made for this entry, and nothing has seen it yet
        if isinstance(result, Node) and result.op.mnemonic == "pick":
            object.__setattr__(result, "origin", Origin(scope.path(name), place.key))
        scope.values[name] = result


def call_by_origin(scope: Scope, names: tuple[str, ...], entry: Entry[Any]) -> None:
    """Gives the nodes of an entry the names that `from` says, or what comes before the '~' of a
    name for a part.

    They are new, and known by the path of the entry, which no other node has. Raises Fault.
    """
    given = getattr(entry.spec, "origin", None)
    path = scope.path(names[0])
    if isinstance(given, list) and len(given) != len(names):
        raise Fault(
            "XL2012", f"{len(given)} names for {len(names)} results", entry.place.at("from").span
        )
    for number, name in enumerate(names):
        whole, mark, _ = name.rpartition("~")
        wanted = (
            given[number]
            if isinstance(given, list)
            else given or (scope.path(whole) if mark else "")
        )
        if wanted:
            value = scope.values[name]
            rename(
                [value] if isinstance(value, Node) else nodes_in(value),
                path if number == 0 else scope.path(name),
                wanted,
            )


def nodes_in(value: Value | None) -> list[Node]:
    """Every node that a value stands for."""
    match value:
        case Node():
            return [value]
        case Bundle():
            return [node for part in value.members.values() for node in nodes_in(part)]
        case Copies():
            return [node for part in value.items for node in nodes_in(part)]
    return []


def rename(stack: list[Node], path: str, wanted: str) -> None:
    """Calls the nodes otherwise that go by the path, back to the first that does not."""
    while stack:
        node = stack.pop()
        if (
            node.origin is not None
            and node.origin.name == path != wanted
            and node.op.mnemonic != "param"
        ):
            object.__setattr__(node, "origin", Origin(wanted, node.origin.span))
            stack += node.inputs


def make(context: Context, scope: Scope, key: str, spec: Any, place: Place) -> Value:
    """The value of one entry. Raises Fault or Poisoned."""
    from xlac.spec.elaborate.blocks import use
    from xlac.spec.elaborate.control import cond, loop, scan

    path = scope.path(split_names(key)[0])
    if spec == BROKEN:
        raise Poisoned
    match spec:
        case schema.OpNode():
            return operation(context, scope, spec, path, place)
        case schema.BlockNode():
            return use(context, scope, spec, path, place)
        case schema.ScanNode():
            return scan(context, scope, spec, path, place)
        case schema.WhileNode():
            return loop(context, scope, spec, path, place)
        case schema.CondNode():
            return cond(context, scope, spec, path, place)
    found = expression(context, scope, spec, path, place)
    return as_node(context, found, spec, path, place) if isinstance(found, int | float) else found


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
    context: Context, scope: Scope, spec: schema.OpNode | schema.BlockNode, path: str, place: Place
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


def operation(
    context: Context, scope: Scope, spec: schema.OpNode, path: str, place: Place
) -> Value:
    """`{op: …, in: …}`. Raises Fault or Poisoned."""
    if (other := otherwise(context, scope, spec, path, place)) is not None:
        return other
    name = arithmetic.value(spec.op, scope.constants, place.at("op"))
    spans = NodeSpans(place, spec)
    if not isinstance(name, str):
        raise Fault("XL2001", f"an operation is a name, not {name!r}", spans.name())
    if name in context.custom:
        from xlac.spec.elaborate.custom import custom_node

        return custom_node(context, scope, name, spec, path, place)
    if name in LITERALS:
        from xlac.spec.elaborate.literal import literal

        return literal(context, scope, name, spec, path, place)
    op = (
        table()["call"]
        if name == "call" and spec.body is not None
        else find(context, name, spans.name())
    )
    allowed = fields(context, name) or frozenset()
    body = None
    if spec.body is not None:
        if not attributes.holds_body(op):
            raise Fault(
                "XL2005", f"unknown key 'body' for {name}: it runs no graph", place.at("body").key
            )
        from xlac.spec.elaborate.bodies import function

        body = function(context, scope, spec.body, path, place.at("body"))
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
                found = expression(context, scope, value, f"{path}.{key}", at)
                learned[key] = as_node(context, found, value, f"{path}.{key}", at)
        except Fault as fault:
            if key in attributes.flags(op) and fault.diagnostic.code == "XL2002":
                given[key] = value  # an attribute after all, and of the wrong kind
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
    operands = inputs(context, scope, spec.inputs, operand_names(op), name, path, place)
    if poisoned:
        raise Poisoned
    exact = spec.exact is True or flag(scope, spec.exact, place.at("exact"))
    return apply(
        context, scope, name, operands, given, learned, path, spans, place.key, body, exact
    )


def types(given: Any, scope: Scope, place: Place) -> Any:
    """Types where an attribute has their text. Raises Fault."""
    if isinstance(given, list):
        return [types(item, scope, place.at(i)) for i, item in enumerate(given)]
    return arithmetic.type_value(given, scope.constants, place) if isinstance(given, str) else given


def inputs(
    context: Context,
    scope: Scope,
    given: Any,
    names: list[str],
    called: str,
    path: str,
    place: Place,
) -> list[Operand]:
    """The `in` of a node, in the order of the operands. Faults but the last go to the report.
    Raises Fault.
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
            found = expression(context, scope, item, path, spot)
            if isinstance(found, Copies) and len(items) == 1 and names[-1:] and called == "concat":
                operands += [as_node(context, one, item, path, spot) for one in found.items]
            else:
                operands.append(
                    found
                    if isinstance(found, int | float)
                    else as_node(context, found, item, path, spot)
                )
        except Fault as fault:
            context.report.fault(fault)
            failures.append(fault)
        except Poisoned as poisoned:
            failures.append(poisoned)
    if failures:
        raise Poisoned
    return operands
