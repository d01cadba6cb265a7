"""Conditionals in specs: one of several graphs runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xlac.ir.graph import Graph, Node
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.control.bodies import apply, branch, captured, handed, named
from xlac.spec.elaborate.evaluate import as_node, expression
from xlac.spec.elaborate.operations import same
from xlac.spec.elaborate.scope import Bundle, Scope, Value
from xlac.spec.report import Fault, Place
from xlac.spec.schema import schema
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin


def cond(
    context: Elaboration, scope: Scope, spec: schema.CondNode, path: str, place: Place
) -> Value:
    """A conditional. Raises Fault or Poisoned."""
    from xlac.ops import build
    from xlac.ops.control.control import Cond

    at = place.at("cond")
    on = as_node(context, expression(context, scope, spec.on, path, at), spec.on, path, at)
    if on.shape != () or on.type.dtype.is_float:
        raise Fault(
            "XL2009",
            f"cond chooses by a bool[] or an integer, and this is {on.type}",
            at.span,
            "select(condition, x, y) chooses element by element",
        )
    chosen = branches_of(spec, on, path, place)
    given = handed(context, scope, spec.given, path, place)
    bodies = [branch(context, scope, one, name, spot, given) for one, spot, name in chosen]
    check_alike([outputs for _, _, outputs in bodies], [spot for _, spot, _ in chosen])
    outer, tables = captured(scope, [frame for frame, _, _ in bodies])
    graphs = tuple(
        Graph(name, (*params, *table.values()), named(list(outputs.values())))
        for (_, params, outputs), table, (_, _, name) in zip(bodies, tables, chosen, strict=True)
    )
    index = build.cast(on, DType.I32)
    context.stamp([index], Origin(path, at.span))
    results = apply(
        context, Cond(branches=graphs), [index, *given.values(), *outer], "cond", path, place
    )
    names = list(bodies[0][2])
    if names == [""]:
        return results[0]
    members: dict[str, Value] = dict(zip(names, results, strict=True))
    return Bundle(members, results[0], results)


def branches_of(
    spec: schema.CondNode, on: Node, path: str, place: Place
) -> list[tuple[Any, Place, str]]:
    """The branches by number, each with its place and name: `else` is 0, `then` 1. Raises Fault."""
    if spec.branches is not None:
        if spec.then is not None or spec.otherwise is not None:
            raise Fault("XL1012", "give either then and else, or branches", place.key)
        if not spec.branches:
            raise Fault("XL1012", "cond has no branches", place.at("branches").span)
        return [
            (one, place.at("branches", i), f"{path}.{i}") for i, one in enumerate(spec.branches)
        ]
    if spec.then is None or spec.otherwise is None:
        missing = "then" if spec.then is None else "else"
        raise Fault("XL1011", f"missing key {missing!r} in a cond", place.key)
    if on.type.dtype is not DType.BOOL:
        problem = f"then and else need a bool, and this is {on.type}"
        raise Fault("XL2009", problem, place.at("cond").span)
    return [
        (spec.otherwise, place.at("else"), f"{path}.else"),
        (spec.then, place.at("then"), f"{path}.then"),
    ]


def check_alike(results: Sequence[Mapping[str, Node]], places: Sequence[Place]) -> None:
    """Raises Fault for a branch whose results differ from the first branch's in name or type."""
    first, *others = results
    names = list(first)
    for outputs, place in zip(others, places[1:], strict=True):
        if list(outputs) != names:
            problem = (
                f"branches differ in their results: {', '.join(names)} and {', '.join(outputs)}"
            )
            raise Fault("XL2009", problem, place.span)
        for name in names:
            if not same(outputs[name].type, first[name].type):
                types = f"{first[name].type} and {outputs[name].type}"
                problem = f"branches differ in type: {name or 'the result'} is {types}"
                raise Fault("XL2009", problem, place.span)
