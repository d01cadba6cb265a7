"""The way from a spec file to a model, with every mistake in it reported at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.model import Model
from xlac.spec.elaborate import arithmetic
from xlac.spec.elaborate.arithmetic import Constants
from xlac.spec.elaborate.context import MAX_NODES, Context, check_size
from xlac.spec.elaborate.counting import Counted
from xlac.spec.elaborate.entries import elaborate
from xlac.spec.elaborate.evaluate import as_node, expression
from xlac.spec.elaborate.handlers import HANDLERS
from xlac.spec.elaborate.scope import Frame, Scope
from xlac.spec.elaborate.unused import check_unused
from xlac.spec.report import Fault, Poisoned, Report, nearest
from xlac.spec.schema import schema
from xlac.spec.schema.document import Entry, Merged, read_document, resolved
from xlac.spec.schema.settings import DimValue, read_dims, read_params
from xlac.spec.weights.find import find
from xlac.spec.weights.stored import Stored
from xlac.support.gc_pause import paused
from xlac_sdk.source import Diagnostic, Origin, UnsupportedError
from xlac_sdk.support.limits import look


def load(
    path: str | Path,
    *,
    params: Mapping[str, Any] | None = None,
    dims: Mapping[str, DimValue] | None = None,
    allow_outside: bool = False,
    weights: bool = True,
    training: bool = False,
) -> Model:
    """The model of a spec.

    `params` replace the spec's parameters; `dims` fix symbolic sizes (8) or narrow them ("1..8").
    Files outside the spec's folder are read only with `allow_outside`. `weights=False` leaves the
    data of weights out, but not that of constants, which belong to the graph. Raises SourceError
    with everything that is wrong, and UnsupportedError for a spec that trains unless `training`
    says that its section is only to be checked.
    """
    with paused():
        model, merged = _load(Path(path), params or {}, dims or {}, allow_outside, weights)
    if merged.train is not None and not training:
        raise UnsupportedError(
            Diagnostic(
                "XL5030",
                "training cannot be built yet; its section was checked and is right",
                merged.train.place.key,
                "`xlac check` shows the model; build the spec that this one includes",
            )
        )
    return model


def _load(
    path: Path,
    params: Mapping[str, Any],
    dims: Mapping[str, DimValue],
    allow_outside: bool,
    weights: bool,
) -> tuple[Model, Merged]:
    look("reading the spec")
    report = Report()
    merged = read_document(path, report, allow_outside)
    look("elaborating the spec")
    if merged is None:
        report.finish()
        raise AssertionError("a spec that cannot be read has a reason")
    sizes, symbols = read_dims(merged, dims, report)
    values = read_params(merged, params, sizes, report)
    broken = {name for section, name in report.broken if section in ("dims", "params")}
    constants = Constants(values, sizes, broken)
    stored = Stored(merged.weights, report, resolved(path).parent, allow_outside)
    context = Context(report, merged.blocks, merged.ops, Frame(), stored, HANDLERS)
    scope = Scope(context.root, constants)
    scope.values.update(
        {name: None for section, name in report.broken if section in ("inputs", "state")}
    )
    inputs = declare_inputs(merged, scope, report)
    check_count(merged, constants, report)
    elaborate(context, scope, merged.graph)
    check_unused(context)
    check_outputs(merged, context)
    outputs = read_outputs(merged, context, scope)
    state = read_state(merged, context, scope, outputs)
    extents = read_extents(merged, outputs, report)
    if merged.train is not None:
        read_train(merged.train, context, scope, report)
    arrays: Mapping[str, Any] = {}
    if weights and not report.found:
        arrays = find(context.weights, stored, constants)
    kernels = check_kernels(merged, report, resolved(path).parent, allow_outside)
    report.finish()
    graph = Graph(merged.name, tuple(inputs), outputs)
    return Model(
        graph, arrays, symbols, merged.doc, merged.precision or "default", state, kernels, extents
    ), merged


# ---- inputs, outputs, state ------------------------------------------------------------------


def check_count(merged: Merged, constants: Constants, report: Report) -> None:
    """Refuses a graph that comes to more operations than a model may have, before one is made.
    Raises SourceError.
    """
    counted = Counted(merged.blocks, merged.ops)
    total = 0
    for entry in merged.graph.values():
        total += counted.entry(entry.spec, entry.place, constants)
        if total > MAX_NODES:
            report.add(
                "XL4018", f"the model has more than {MAX_NODES:,} operations", entry.place.key
            )
            report.finish()


def declare_inputs(merged: Merged, scope: Scope, report: Report) -> list[Node]:
    """`param` nodes for inputs and state, named in the scope."""
    from xlac.ops.tensor.leaf import Param

    found: list[Node] = []
    declared: dict[str, Entry[Any]] = {**merged.inputs, **merged.state}
    for name, entry in declared.items():
        state = isinstance(entry.spec, schema.StateSpec)
        at = entry.place if isinstance(entry.spec, str) else entry.place.at("type")
        text = entry.spec if isinstance(entry.spec, str) else entry.spec.type
        if name in scope.values:
            report.add("XL1021", f"{name!r} is given twice", entry.place.key)
        try:
            type = arithmetic.type_value(text, scope.constants, at)
            check_size(type, at.span)
            node = Node.of(
                Param(name=name, type=type, kind="state" if state else "input"),
                origin=Origin(name, entry.place.key),
            )
            found.append(node)
            scope.values[name] = node
        except Fault as fault:
            report.fault(fault)
            scope.values[name] = None
        except Poisoned:
            scope.values[name] = None
    for name in merged.inputs.keys() & merged.state.keys():
        report.add("XL1021", f"{name!r} is an input and a state", merged.state[name].place.key)
    return found


def check_outputs(merged: Merged, context: Context) -> None:
    """A spec without nodes or outputs computes nothing."""
    if not merged.outputs and not context.report.found:
        context.report.add(
            "XL1011",
            "missing key 'outputs': the spec says no result",
            merged.place.span,
            "outputs: [name]",
        )


def read_outputs(merged: Merged, context: Context, scope: Scope) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for name, entry in merged.outputs.items():
        try:
            value = expression(context, scope, entry.spec, name, entry.place)
            found[name] = as_node(context, value, entry.spec, name, entry.place)
        except Fault as fault:
            context.report.fault(fault)
        except Poisoned:
            pass
    return found


def read_state(
    merged: Merged, context: Context, scope: Scope, outputs: dict[str, Node]
) -> dict[str, str]:
    """The output that holds the next value of each state; an output of its own where there is none."""
    found: dict[str, str] = {}
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
        found[name] = same or f"{name}.next"
        outputs.setdefault(found[name], node)
    return found


def read_extents(
    merged: Merged, outputs: Mapping[str, Node], report: Report
) -> dict[str, dict[int, str]]:
    """For outputs with sizes that data decides, axis -> the output that holds the real size, an
    integer scalar.
    """
    found: dict[str, dict[int, str]] = {}
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
                f"{name!r} has {node.type.rank} axes, and {len(entry.spec)} are told",
                entry.place.span,
            )
        found[name] = {axis: count for axis, count in enumerate(entry.spec) if count is not None}
        for axis, count in found[name].items():
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
    return found


def read_train(
    entry: Entry[schema.TrainSpec], context: Context, scope: Scope, report: Report
) -> None:
    """Checks what training asks for: that the loss is a scalar, and that patterns fit weights."""
    from fnmatch import fnmatchcase

    spec, place = entry.spec, entry.place
    for text, at in [
        (spec.loss, place.at("loss")),
        *((m, place.at("metrics", n)) for n, m in spec.metrics.items()),
    ]:
        try:
            value = as_node(
                context, expression(context, scope, text, "train", at), text, "train", at
            )
            if at.path[-1] == "loss" and value.type != Type(value.type.dtype):
                raise Fault(
                    "XL2009",
                    f"the loss is {value.type}, and must be a scalar",
                    at.span,
                    "mean(…) makes one",
                )
        except Fault as fault:
            report.fault(fault)
        except Poisoned:
            pass
    for i, pattern in enumerate(spec.wrt):
        if not any(fnmatchcase(name, pattern) for name in context.weights) and not report.found:
            report.add(
                "XL3011",
                f"this pattern fits no weight: {pattern!r}",
                place.at("wrt", i).span,
                nearest(pattern, context.weights),
            )


def check_kernels(
    merged: Merged, report: Report, folder: Path, allow_outside: bool
) -> dict[str, dict[str, Path]]:
    """The files of hand-written kernels, by operation and target; each must be there, inside the
    folder.
    """
    found: dict[str, dict[str, Path]] = {}
    for name, entry in merged.ops.items():
        for target, text in entry.spec.kernels.items():
            at = entry.place.at("kernels", target)
            path = entry.place.source.file.parent / text
            if not allow_outside and not resolved(path).is_relative_to(folder):
                report.add(
                    "XL3002",
                    f"{text!r} is outside the spec's folder",
                    at.span,
                    "--allow-outside permits it",
                )
            elif not path.is_file():
                report.add("XL3001", f"no such file: {text}", at.span)
            else:
                found.setdefault(name, {})[target] = path
    return found
