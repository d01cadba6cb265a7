"""The interface of a spec's model: inputs, outputs, state and sizes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from itertools import count as numbers
from typing import Any

from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.tensor.leaf import Param, param
from xlac.ops.values import Weak
from xlac.spec.elaborate import type_text
from xlac.spec.elaborate.context import Elaboration, check_size
from xlac.spec.elaborate.evaluate import as_node, expression
from xlac.spec.elaborate.scope import Scope
from xlac.spec.report import Fault, Place, Poisoned, Report, nearest
from xlac.spec.schema import interface
from xlac.spec.schema.document import Merged, SpecEntry
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin


def declare_inputs(merged: Merged, context: Elaboration, scope: Scope) -> list[Node]:
    """Makes `param` nodes for inputs and state, and names them in the scope."""
    report, params = context.report, list[Node]()
    declared: dict[str, SpecEntry[Any]] = {**merged.inputs, **merged.state}
    for name, entry in declared.items():
        state = isinstance(entry.spec, interface.StateSpec)
        at = entry.place if isinstance(entry.spec, str) else entry.place.at("type")
        text = entry.spec if isinstance(entry.spec, str) else entry.spec.type
        if name in scope.values:
            report.add("XL1021", f"{name!r} is given twice", entry.place.key)
        try:
            type = type_text.type_value(text, scope.constants, at)
            check_size(type, at.span)
            node = Node.of(
                Param(name=name, type=type, kind="state" if state else "input"),
                origin=Origin(name, entry.place.key),
            )
            params.append(node)
            scope.values[name] = node
        except Fault as fault:
            report.fault(fault)
            scope.values[name] = None
        except Poisoned:
            scope.values[name] = None
    for name in merged.inputs.keys() & merged.state.keys():
        report.add("XL1021", f"{name!r} is an input and a state", merged.state[name].place.key)
    return params + _initialized(merged, context, scope)


STARTED = "started"
"""The state that says whether there was a call; it is false, as all state is zeros at first."""


def _initialized(merged: Merged, context: Elaboration, scope: Scope) -> list[Node]:
    """Makes the states with an `init` read as that until the first call has written them. Returns
    the state STARTED, if there are such.
    """
    initial = {name: one for name, one in merged.state.items() if one.spec.init != 0}
    if not initial:
        return []
    states = {name: scope.values.pop(name) for name in merged.state}  # which `init` cannot read
    names = chain([STARTED], (f"{STARTED}{n}" for n in numbers(1)))
    taken = {*scope.values, *states}
    free = next(name for name in names if name not in taken)
    started = build.param(free, DType.BOOL, (), "state", Origin(free))
    read: dict[str, Node] = {}
    for name, entry in initial.items():
        held = states[name]
        if not isinstance(held, Node):
            continue
        at = entry.place.at("init")
        try:
            first = _first_value(context, scope, entry.spec.init, name, held, at)
        except Fault as fault:
            context.report.fault(fault)
            continue
        except Poisoned:
            continue
        read[name] = build.select(started, held, first)
        context.stamp([read[name]], Origin(name, at.span))
    scope.values.update({**states, **read})
    return [started]


def _first_value(
    context: Elaboration, scope: Scope, text: Any, name: str, held: Node, at: Place
) -> Node:
    """The value of `init` for a state, of its type. Raises Fault."""
    value = expression(context, scope, text, f"{name}.init", at)
    type = held.type
    kind = value.kind if isinstance(value, Weak) else value.__class__
    if kind is float and not type.dtype.is_float:
        raise Fault("XL2013", f"state {name!r} is {type}, and its init has fractions", at.span)
    node = as_node(context, value, text, f"{name}.init", at, type.with_shape(()))
    if node.type.dtype is not type.dtype or node.shape not in ((), type.shape):
        raise Fault("XL2013", f"state {name!r} is {type}, and its init {node.type}", at.span)
    return build.broadcast_to(node, type.shape)


def check_outputs(merged: Merged, context: Elaboration) -> None:
    """Reports a spec without nodes or outputs."""
    if not merged.outputs and not context.report.diagnostics:
        context.report.add(
            "XL1011",
            "missing key 'outputs': the spec says no result",
            merged.at.span,
            "outputs: [name]",
        )


def read_outputs(merged: Merged, context: Elaboration, scope: Scope) -> dict[str, Node]:
    """The nodes of the outputs by name. Mistakes go to the report."""
    outputs: dict[str, Node] = {}
    for name, entry in merged.outputs.items():
        try:
            value = expression(context, scope, entry.spec, name, entry.place)
            outputs[name] = as_node(context, value, entry.spec, name, entry.place)
        except Fault as fault:
            context.report.fault(fault)
        except Poisoned:
            pass
    return outputs


def read_state(
    merged: Merged, context: Elaboration, scope: Scope, params: list[Node], outputs: dict[str, Node]
) -> dict[str, str]:
    """The output that holds the next value of each state; an additional output where there is
    none. `params` are those of `declare_inputs`.
    """
    next_values: dict[str, str] = {}
    for name, entry in merged.state.items():
        at = entry.place.at("next")
        try:
            value = expression(context, scope, entry.spec.next, f"{name}.next", at)
            node = as_node(context, value, entry.spec.next, f"{name}.next", at)
            held = scope.values.get(name)
            if isinstance(held, Node) and held.type != node.type:
                raise Fault(
                    "XL2013", f"state {name!r} is {held.type}, and becomes {node.type}", at.span
                )
        except Fault as fault:
            context.report.fault(fault)
            continue
        except Poisoned:
            continue
        same = next((key for key, output in outputs.items() if output is node), None)
        next_values[name] = same or f"{name}.next"
        outputs.setdefault(next_values[name], node)
    declared = {*merged.inputs, *merged.state}
    for name in (param(node).name for node in params):
        if name not in declared:  # STARTED
            next_values[name] = f"{name}.next"
            outputs[f"{name}.next"] = build.constant(True, DType.BOOL)
    return next_values


def read_extents(
    merged: Merged, outputs: Mapping[str, Node], report: Report
) -> dict[str, dict[int, str]]:
    """For outputs whose sizes depend on data: axis -> the output that holds the actual size, an
    integer scalar.
    """
    extents: dict[str, dict[int, str]] = {}
    for name, entry in merged.extents.items():
        node = outputs.get(name)
        if node is None:
            if name not in merged.outputs:
                report.add(
                    "XL2002",
                    f"there is no output {name!r}",
                    entry.place.key,
                    nearest(name, merged.outputs),
                )
            continue
        if len(entry.spec) != node.type.rank:
            report.add(
                "XL2009",
                f"{name!r} has {node.type.rank} axes, and {len(entry.spec)} are listed",
                entry.place.span,
            )
        extents[name] = {axis: count for axis, count in enumerate(entry.spec) if count is not None}
        for axis, count in extents[name].items():
            at = entry.place.at(axis)
            if count not in merged.outputs:
                report.add(
                    "XL2002",
                    f"there is no output {count!r}",
                    at.span,
                    nearest(count, merged.outputs),
                )
            elif count in outputs and not (
                outputs[count].type.dtype.is_integer and not outputs[count].shape
            ):
                report.add(
                    "XL2009",
                    f"a size is an integer scalar, and {count!r} is {outputs[count].type}",
                    at.span,
                )
    return extents
