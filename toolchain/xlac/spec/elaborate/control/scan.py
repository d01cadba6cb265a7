"""Scans in specs: loops over slices, whose results are stacked."""

from __future__ import annotations

from collections.abc import Mapping

from xlac.ir.dims import Dim
from xlac.ir.graph import Graph, Node
from xlac.ir.op import ShapeError, normal_axis
from xlac.spec.elaborate import arithmetic, type_text
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.control.bodies import (
    apply,
    body_scope,
    captured,
    handed,
    named,
    run_body,
    see,
)
from xlac.spec.elaborate.control.carried import Carried, body_input
from xlac.spec.elaborate.evaluate import as_node, expression
from xlac.spec.elaborate.node_keys import flag, whole
from xlac.spec.elaborate.scope import Bundle, Scope, Value
from xlac.spec.report import Fault, Place
from xlac.spec.schema import schema
from xlac_sdk.source import Origin

MOST = 2**31 - 1


def scan(
    context: Elaboration, scope: Scope, spec: schema.ScanNode, path: str, place: Place
) -> Value:
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
    slice_params = slice_inputs(inner, sliced, path, place)
    given_params = see(inner, given, path, place)
    run_body(context, inner, spec.body, place.at("body"))
    after = carried.next(context, inner, spec, path, place)
    stacks = stacked(context, inner, spec, carried, path, place)
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
        checkpoint_every=whole(scope, spec.checkpoint_every, place.at("checkpoint_every"), 0, MOST),
    )
    results = apply(context, op, operands, "scan", path, place)
    members: dict[str, Value] = dict(carried.values(results[: len(after)]))
    axes = [axis for _, axis in sliced.values()]
    for name, node in zip(spec.stack, results[len(after) :], strict=True):
        axis = axes[0] if axes else axis_of(scope, spec, place, None)
        axis = min(axis, node.type.rank - 1)
        moved = build.transpose(node, [*range(1, axis + 1), 0, *range(axis + 1, node.type.rank)])
        context.stamp([moved], Origin(path, place.at("stack", name).key))
        members[name] = moved
    main = members[next(iter(spec.stack))] if spec.stack else next(iter(members.values()))
    return Bundle(members, main, tuple(members.values()))


def slices(
    context: Elaboration, scope: Scope, spec: schema.ScanNode, path: str, place: Place
) -> dict[str, tuple[Node, int]]:
    """The sliced values with their sliced axis moved to the front, and the number of that axis.
    Raises Fault or Poisoned.
    """
    from xlac.ops import build

    sliced: dict[str, tuple[Node, int]] = {}
    for name, text in spec.scan.items():
        at = place.at("scan", name)
        node = as_node(context, expression(context, scope, text, path, at), text, path, at)
        if not node.shape:
            raise Fault("XL2009", f"scan: {text!r} is a scalar and has no axis to slice", at.span)
        axis = axis_of(scope, spec, place, node.type.rank)
        rest = [a for a in range(node.type.rank) if a != axis]
        moved = build.transpose(node, [axis, *rest])
        context.stamp([moved], Origin(path, at.span))
        sliced[name] = (moved, axis)
    return sliced


def axis_of(scope: Scope, spec: schema.ScanNode, place: Place, rank: int | None) -> int:
    """The axis that a scan slices, as a nonnegative number. Raises Fault."""
    axis = whole(scope, spec.axis, place.at("axis"), -64, 64)
    if rank is None:
        return max(axis, 0)
    try:
        return normal_axis(axis, rank)
    except ShapeError as error:
        raise Fault("XL2009", f"scan: {error}", place.at("axis").span) from None


def slice_inputs(
    inner: Scope, sliced: Mapping[str, tuple[Node, int]], path: str, place: Place
) -> list[Node]:
    """The inputs of a scan's body for the slices of one step. Raises Fault."""
    params = []
    for name, (node, _) in sliced.items():
        at = place.at("scan", name)
        if name in inner.values:
            raise Fault("XL1021", f"{name!r} is a slice and a carried value", at.key)
        param = body_input(name, node.type.with_shape(node.shape[1:]), path, at)
        inner.values[name] = param
        params.append(param)
    return params


def stacked(
    context: Elaboration,
    inner: Scope,
    spec: schema.ScanNode,
    carried: Carried,
    path: str,
    place: Place,
) -> list[Node]:
    """The values of a scan's body that are stacked. Raises Fault or Poisoned."""
    nodes = []
    for name, text in spec.stack.items():
        at = place.at("stack", name)
        if name in carried.inits:
            problem = f"{name!r} is carried and stacked; give one of them another name"
            raise Fault("XL1021", problem, at.key)
        inside = f"{path}.{name}"
        value = expression(context, inner, text, inside, at)
        nodes.append(as_node(context, value, text, inside, at))
    return nodes


def steps(
    scope: Scope, spec: schema.ScanNode, sliced: Mapping[str, tuple[Node, int]], place: Place
) -> Dim:
    """The number of steps of a scan. Raises Fault."""
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
