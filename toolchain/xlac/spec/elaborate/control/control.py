"""Structured control: scan, while and cond, each with closed bodies whose captures become inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xlac.ir.dims import Dim
from xlac.ir.graph import Graph, Node
from xlac.ir.op import ShapeError, normal_axis
from xlac.ir.types import Type
from xlac.spec.elaborate import arithmetic, type_text
from xlac.spec.elaborate.context import Context
from xlac.spec.elaborate.control.bodies import (
    body_scope,
    branch,
    captured,
    handed,
    named,
    run_body,
    see,
)
from xlac.spec.elaborate.control.carried import Carried, body_input
from xlac.spec.elaborate.evaluate import as_node, expression
from xlac.spec.elaborate.node_keys import flag, whole
from xlac.spec.elaborate.operations import same
from xlac.spec.elaborate.scope import Bundle, Scope, Value
from xlac.spec.report import Fault, Place
from xlac.spec.schema import schema
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin


def apply(
    context: Context, op: Any, operands: Sequence[Node], what: str, path: str, place: Place
) -> tuple[Node, ...]:
    """The results of a control operation. Raises Fault."""
    from xlac.ops import build

    try:
        made = Node.of(op, *operands, origin=None)
    except ShapeError as error:
        raise Fault("XL2009", f"{what}: {error}", place.key, error.hint) from None
    results = build.results(made)
    context.stamp(results, Origin(path, place.key))
    return results


def scan(context: Context, scope: Scope, spec: schema.ScanNode, path: str, place: Place) -> Value:
    """A loop over slices. Raises Fault or Poisoned."""
    from xlac.ops import build
    from xlac.ops.control.control import Scan

    carried = Carried(context, scope, spec, path, place)
    sliced = slices(context, scope, spec, path, place)
    length = steps(scope, spec, sliced, place)
    inner = body_scope(scope, path)
    carry_params = carried.params(path, place)
    inner.values.update(carried.values(carry_params))
    given = handed(context, scope, spec.given, path, place)
    slice_params = []
    for name, (node, _) in sliced.items():
        if name in inner.values:
            raise Fault(
                "XL1021", f"{name!r} is a slice and a carried value", place.at("scan", name).key
            )
        param = body_input(name, node.type.with_shape(node.shape[1:]), path, place.at("scan", name))
        inner.values[name] = param
        slice_params.append(param)
    given_params = see(inner, given, path, place)
    run_body(context, inner, spec.body, place.at("body"))
    after = carried.next(context, inner, spec, path, place)
    stacks = []
    for name, text in spec.stack.items():
        at = place.at("stack", name)
        if name in carried.inits:
            raise Fault(
                "XL1021", f"{name!r} is carried and stacked; give one of them another name", at.key
            )
        stacks.append(
            as_node(
                context,
                expression(context, inner, text, f"{path}.{name}", at),
                text,
                f"{path}.{name}",
                at,
            )
        )
    outer, (table,) = captured(scope, [inner.frame])
    body = Graph(
        path,
        (*carry_params, *slice_params, *given_params, *table.values()),
        named([*after, *stacks]),
    )
    operands = [*carried.flat(), *(node for node, _ in sliced.values()), *given.values(), *outer]
    if not after and not stacks:
        raise Fault(
            "XL2012",
            "a scan gives its carried values and what it stacks; this has neither",
            place.key,
        )
    op = Scan(
        body=body,
        length=length,
        carries=len(after),
        scanned=len(sliced),
        reverse=spec.reverse is True or flag(scope, spec.reverse, place.at("reverse")),
    )
    results = apply(context, op, operands, "scan", path, place)
    members: dict[str, Value] = dict(carried.values(results[: len(after)]))
    axes = [axis for _, axis in sliced.values()]
    for name, node in zip(spec.stack, results[len(after) :], strict=True):
        axis = min(axes[0] if axes else axis_of(scope, spec, place, None), node.type.rank - 1)
        moved = build.transpose(node, [*range(1, axis + 1), 0, *range(axis + 1, node.type.rank)])
        context.stamp([moved], Origin(path, place.at("stack", name).key))
        members[name] = moved
    main = members[next(iter(spec.stack))] if spec.stack else next(iter(members.values()))
    return Bundle(members, main, tuple(members.values()))


def axis_of(scope: Scope, spec: schema.ScanNode, place: Place, rank: int | None) -> int:
    """The axis that a scan slices, counted from the start. Raises Fault."""
    axis = whole(scope, spec.axis, place.at("axis"), -64, 64)
    if rank is None:
        return max(axis, 0)
    try:
        return normal_axis(axis, rank)
    except ShapeError as error:
        raise Fault("XL2009", f"scan: {error}", place.at("axis").span) from None


def slices(
    context: Context, scope: Scope, spec: schema.ScanNode, path: str, place: Place
) -> dict[str, tuple[Node, int]]:
    """The sliced values with their axis in front, and which axis that was. Raises Fault or
    Poisoned.
    """
    from xlac.ops import build

    found: dict[str, tuple[Node, int]] = {}
    for name, text in spec.scan.items():
        at = place.at("scan", name)
        node = as_node(context, expression(context, scope, text, path, at), text, path, at)
        if not node.shape:
            raise Fault("XL2009", f"scan: {text!r} is a scalar and has no axis to slice", at.span)
        axis = axis_of(scope, spec, place, node.type.rank)
        rest = [a for a in range(node.type.rank) if a != axis]
        moved = build.transpose(node, [axis, *rest])
        context.stamp([moved], Origin(path, at.span))
        found[name] = (moved, axis)
    return found


def steps(
    scope: Scope, spec: schema.ScanNode, sliced: Mapping[str, tuple[Node, int]], place: Place
) -> Dim:
    """How many steps a scan makes. Raises Fault."""
    length: Dim | None = None
    if spec.length is not None:
        at = place.at("length")
        length = type_text.size_value(arithmetic.value(spec.length, scope.constants, at), at)
    for name, (node, _) in sliced.items():
        if length is not None and node.shape[0] != length:
            raise Fault(
                "XL2009",
                f"scan: {name!r} has {node.shape[0]} slices, and there are {length} steps",
                place.at("scan", name).span,
            )
        length = node.shape[0]
    if length is None:
        raise Fault(
            "XL1011",
            "missing key 'length': nothing is sliced, so the number of steps is not known",
            place.key,
        )
    return length


def loop(context: Context, scope: Scope, spec: schema.WhileNode, path: str, place: Place) -> Value:
    """A loop while a condition is true. Raises Fault or Poisoned."""
    from xlac.ops.control.control import While

    carried = Carried(context, scope, spec, path, place)
    if not carried.inits:
        raise Fault("XL2012", "a while loop carries at least one value", place.at("carry").span)
    inner = body_scope(scope, path)
    test_params, body_params = carried.params(path, place), carried.params(path, place)
    inner.values.update(carried.values(body_params))
    given = handed(context, scope, spec.given, path, place)
    given_params = see(inner, given, path, place)
    at = place.at("while")
    test, tested, outputs = branch(
        context, scope, spec.condition, f"{path}.while", at, given, carried.values(test_params)
    )
    if len(outputs) != 1:
        raise Fault(
            "XL2012", f"the condition of while is one value, and this gives {len(outputs)}", at.span
        )
    (holds,) = outputs.values()
    if holds.type != Type(DType.BOOL):
        raise Fault(
            "XL2009", f"the condition of while is {holds.type}, and must be bool[]", at.span
        )
    run_body(context, inner, spec.body, place.at("body"))
    after = carried.next(context, inner, spec, path, place)
    read = set(Graph(path, tuple(test_params), {"y0": holds}).nodes())
    if all(
        param not in read or value is same
        for param, value, same in zip(test_params, after, body_params, strict=True)
    ):
        message = "the condition of while reads no carried value that changes: the loop would never end, or never begin"
        raise Fault("XL2018", message, at.span, f"it carries {', '.join(carried.inits)}")
    outer, (in_test, in_body) = captured(scope, [test, inner.frame])
    op = While(
        cond=Graph(f"{path}.while", (*test_params, *tested, *in_test.values()), {"y0": holds}),
        body=Graph(
            path,
            (*body_params, *given_params, *in_body.values()),
            named([*after, *given_params, *in_body.values()]),
        ),
    )
    results = apply(context, op, [*carried.flat(), *given.values(), *outer], "while", path, place)
    members = carried.values(results[: len(after)])
    return Bundle(members, next(iter(members.values())), tuple(members.values()))


def cond(context: Context, scope: Scope, spec: schema.CondNode, path: str, place: Place) -> Value:
    """A choice between graphs. Raises Fault or Poisoned."""
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
    if spec.branches is not None:
        if spec.then is not None or spec.otherwise is not None:
            raise Fault("XL1012", "give either then and else, or branches", place.key)
        chosen = [
            (one, place.at("branches", i), f"{path}.{i}") for i, one in enumerate(spec.branches)
        ]
        if not chosen:
            raise Fault("XL1012", "cond has no branches", place.at("branches").span)
    else:
        if spec.then is None or spec.otherwise is None:
            missing = "then" if spec.then is None else "else"
            raise Fault("XL1011", f"missing key {missing!r} in a cond", place.key)
        if on.type.dtype is not DType.BOOL:
            raise Fault("XL2009", f"then and else need a bool, and this is {on.type}", at.span)
        chosen = [
            (spec.otherwise, place.at("else"), f"{path}.else"),
            (spec.then, place.at("then"), f"{path}.then"),
        ]
    given = handed(context, scope, spec.given, path, place)
    made = [branch(context, scope, one, name, spot, given) for one, spot, name in chosen]
    first = made[0][2]
    names = list(first)
    for (_, _, outputs), (_, spot, _) in zip(made, chosen, strict=True):
        if list(outputs) != names:
            raise Fault(
                "XL2009",
                f"branches differ in their results: {', '.join(names)} and {', '.join(outputs)}",
                spot.span,
            )
        for name in names:
            if not same(outputs[name].type, first[name].type):
                message = f"branches differ in type: {name or 'the result'} is {first[name].type} and {outputs[name].type}"
                raise Fault("XL2009", message, spot.span)
    outer, tables = captured(scope, [frame for frame, _, _ in made])
    graphs = tuple(
        Graph(name, (*params, *table.values()), named(list(outputs.values())))
        for (_, params, outputs), table, (_, _, name) in zip(made, tables, chosen, strict=True)
    )
    index = build.cast(on, DType.I32)
    context.stamp([index], Origin(path, at.span))
    results = apply(
        context, Cond(branches=graphs), [index, *given.values(), *outer], "cond", path, place
    )
    if names == [""]:
        return results[0]
    members: dict[str, Value] = dict(zip(names, results, strict=True))
    return Bundle(members, results[0], results)
