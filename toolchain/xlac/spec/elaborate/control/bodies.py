"""Bodies of control operations: their scopes, inputs, captured values and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xlac.ir.graph import Graph, Node
from xlac.ir.op import ShapeError
from xlac.spec.elaborate import type_text
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.control.carried import body_input
from xlac.spec.elaborate.entries import elaborate, entries_at
from xlac.spec.elaborate.evaluate import as_node, expression
from xlac.spec.elaborate.scope import Frame, Scope, Value
from xlac.spec.report import Fault, Place
from xlac.spec.schema import schema
from xlac_sdk.source import Origin


def body_scope(scope: Scope, path: str) -> Scope:
    """The scope of a body: a closed graph inside."""
    return Scope(Frame(scope.frame), scope.constants, f"{path}.", scope)


def captured(scope: Scope, frames: Sequence[Frame]) -> tuple[list[Node], list[dict[Node, Node]]]:
    """The values that several bodies capture from around them, in one order, and each body's own
    inputs for these.
    """
    from xlac.ops.tensor.leaf import Param

    outer: dict[Node, None] = {}
    for frame in frames:
        outer.update(dict.fromkeys(frame.captured))
    nodes = list(outer)
    tables = []
    for frame in frames:
        table: dict[Node, Node] = {}
        for i, node in enumerate(nodes):
            inner = frame.captured.get(node)
            unused = Param(node.name or f"captured_{i}", node.type)
            table[node] = inner if inner is not None else Node.of(unused, origin=node.origin)
        tables.append(table)
    return nodes, tables


def named(nodes: Sequence[Node]) -> dict[str, Node]:
    """Outputs of a body, in order."""
    return {f"y{i}": node for i, node in enumerate(nodes)}


def run_body(context: Elaboration, inner: Scope, body: Mapping[str, Any], place: Place) -> None:
    """Elaborates the entries of a body in its scope. Raises Fault for one that is nested too
    deeply.
    """
    # an entry for the body: its depth is limited together with that of blocks
    context.stack.append("")
    try:
        if len(context.stack) > 40:
            raise Fault("XL4014", "loops and blocks are nested deeper than 40", place.key)
        elaborate(context, inner, entries_at(body, place))
    finally:
        context.stack.pop()


def handed(
    context: Elaboration, scope: Scope, given: Mapping[str, Any], path: str, place: Place
) -> dict[str, Node]:
    """The values that `with` passes to a body, by their names inside. Raises Fault or Poisoned."""
    nodes: dict[str, Node] = {}
    for name, text in given.items():
        at = place.at("with", name)
        nodes[name] = as_node(
            context,
            expression(context, scope, text, f"{path}.{name}", at),
            text,
            f"{path}.{name}",
            at,
        )
    return nodes


def see(inner: Scope, given: Mapping[str, Node], path: str, place: Place) -> list[Node]:
    """Makes inputs of a body for the values passed to it, and names them in its scope. Raises
    Fault.
    """
    from xlac.ops.tensor.leaf import Param

    params = []
    for name, node in given.items():
        if name in inner.values:
            raise Fault("XL1021", f"{name!r} is given twice", place.at("with", name).key)
        param = Node.of(Param(name=name, type=node.type), origin=node.origin)
        inner.values[name] = param
        params.append(param)
    return params


def branch(
    context: Elaboration,
    scope: Scope,
    spec: Any,
    path: str,
    place: Place,
    given: Mapping[str, Node],
    values: Mapping[str, Value] | None = None,
) -> tuple[Frame, list[Node], dict[str, Node]]:
    """One branch: its frame, its inputs for the values passed to it, and its results. Raises Fault
    or Poisoned.

    An expression has one result without a name.
    """
    inner = body_scope(scope, path)
    inner.values.update(values or {})
    params = see(inner, given, path, place)
    if not isinstance(spec, schema.Branch):
        result = as_node(context, expression(context, inner, spec, path, place), spec, path, place)
        return inner.frame, params, {"": result}
    run_body(context, inner, spec.body, place.at("body"))
    return inner.frame, params, outputs(context, inner, spec, path, place, "a branch")


def outputs(
    context: Elaboration,
    inner: Scope,
    spec: schema.Branch | schema.Function,
    path: str,
    place: Place,
    what: str,
) -> dict[str, Node]:
    """The results of a body by name. Raises Fault or Poisoned."""
    given = spec.outputs
    pairs = (
        [(n, n, place.at("outputs", i)) for i, n in enumerate(given)]
        if isinstance(given, list)
        else [(n, text, place.at("outputs", n)) for n, text in given.items()]
    )
    if not pairs:
        raise Fault("XL2012", f"{what} has at least one output", place.at("outputs").span)
    return {
        name: as_node(
            context,
            expression(context, inner, text, f"{path}.{name}", at),
            text,
            f"{path}.{name}",
            at,
        )
        for name, text, at in pairs
    }


def function(
    context: Elaboration, scope: Scope, spec: schema.Function, path: str, place: Place
) -> Graph:
    """A closed graph that an operation runs: it sees nothing but its inputs. Raises Fault or
    Poisoned.
    """
    name = f"{path}.body"
    inner = Scope(Frame(), scope.constants, f"{name}.")
    params: list[Node] = []
    for key, text in spec.inputs.items():
        at = place.at("inputs", key)
        type = type_text.type_value(text, scope.constants, at)
        params.append(body_input(key, type, name, at))
        inner.values[key] = params[-1]
    run_body(context, inner, spec.graph, place.at("graph"))
    return Graph(name, tuple(params), outputs(context, inner, spec, name, place, "a body"))


def apply(
    context: Elaboration, op: Any, operands: Sequence[Node], what: str, path: str, place: Place
) -> tuple[Node, ...]:
    """The results of a control operation. Raises Fault."""
    from xlac.ops import build

    try:
        loop = Node.of(op, *operands, origin=None)
    except ShapeError as error:
        raise Fault("XL2009", f"{what}: {error}", place.key, error.hint) from None
    results = build.results(loop)
    context.stamp(results, Origin(path, place.key))
    return results
