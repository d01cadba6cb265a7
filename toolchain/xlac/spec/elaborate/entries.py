"""Elaborates the entries of a graph (expressions, operations, blocks and loops) in the order of
their dependencies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xlac.ir.graph import Node
from xlac.ops.values import Weak
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.evaluate import as_node, expression
from xlac.spec.elaborate.operations import fields
from xlac.spec.elaborate.references import reads, split_names
from xlac.spec.elaborate.scope import Bundle, Copies, Scope, Value, in_order
from xlac.spec.report import Attempts, Fault, Place, Poisoned
from xlac.spec.schema.document import BROKEN, SpecEntry
from xlac_sdk.source import Origin
from xlac_sdk.support.counts import number_of
from xlac_sdk.support.limits import count_operation


def entries_at(section: Mapping[str, Any], place: Place) -> dict[str, SpecEntry[Any]]:
    """A graph section of one file with the place of every entry."""
    return {key: SpecEntry(spec, place.at(key)) for key, spec in section.items()}


def elaborate(context: Elaboration, scope: Scope, section: Mapping[str, SpecEntry[Any]]) -> None:
    """Elaborates every entry of a section in the scope. Mistakes go to the report."""
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
    attempts = Attempts(context.report)
    for key in order:
        count_operation()
        names = split_names(key)
        if any(name in scope.values for name in names):
            continue
        entry = section[key]
        with attempts.part():
            value = make(context, scope, key, entry.spec, entry.place)
            bind(scope, names, value, entry.place)
            call_by_origin(scope, names, entry)
        for name in names:
            scope.values.setdefault(name, None)


def _needs(
    context: Elaboration, scope: Scope, key: str, entry: SpecEntry[Any], owner: Mapping[str, str]
) -> list[str]:
    owners: dict[str, None] = {}
    try:
        for name in reads(entry.spec, scope.sees, lambda op: fields(context, op)):
            end = len(name)
            while end > 0:
                if name[:end] in owner:
                    owners[owner[name[:end]]] = None
                    break
                if name[:end] in scope.values:
                    break
                end = name.rfind(".", 0, end)
    except RecursionError:
        raise Fault("XL4014", "nested too deeply", entry.place.key) from None
    return list(owners)


def bind(scope: Scope, names: tuple[str, ...], value: Value, place: Place) -> None:
    """Names a value, or its results in order. Raises Fault."""
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
        got = number_of(len(results), "result")
        raise Fault("XL2012", f"{number_of(len(names), 'name')} for {got}", place.key)
    for name, result in zip(names, results, strict=True):
        # it was made for this entry, and is not used elsewhere yet
        if isinstance(result, Node) and result.op.mnemonic == "pick":
            object.__setattr__(result, "origin", Origin(scope.path(name), place.key))
        scope.values[name] = result


def call_by_origin(scope: Scope, names: tuple[str, ...], entry: SpecEntry[Any]) -> None:
    """Sets the names of an entry's nodes to those given by `from`, or to the part of a name before
    '~'.

    The nodes are new, and identified by the path of the entry, which no other node has. Raises
    Fault.
    """
    given = getattr(entry.spec, "origin", None)
    path = scope.path(names[0])
    if isinstance(given, list) and len(given) != len(names):
        raise Fault(
            "XL2012",
            f"{number_of(len(given), 'name')} for {number_of(len(names), 'result')}",
            entry.place.at("from").span,
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
    """All nodes that a value consists of."""
    match value:
        case Node():
            return [value]
        case Bundle():
            return [node for part in value.members.values() for node in nodes_in(part)]
        case Copies():
            return [node for part in value.items for node in nodes_in(part)]
    return []


def rename(stack: list[Node], path: str, wanted: str) -> None:
    """Renames new nodes with this path, back to the first without it."""
    while stack:
        node = stack.pop()
        if (
            node.origin is not None
            and node.origin.name == path != wanted
            and node.op.mnemonic != "param"
        ):
            object.__setattr__(node, "origin", Origin(wanted, node.origin.span))
            stack += node.inputs


def make(context: Elaboration, scope: Scope, key: str, spec: Any, place: Place) -> Value:
    """The value of one entry. Raises Fault or Poisoned."""
    path = scope.path(split_names(key)[0])
    if spec is BROKEN:
        raise Poisoned
    if (handler := context.handlers.entries.get(type(spec))) is not None:
        return handler(context, scope, spec, path, place)
    value = expression(context, scope, spec, path, place)
    if isinstance(value, int | float | Weak):
        return as_node(context, value, spec, path, place)
    return value
