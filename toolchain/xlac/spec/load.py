"""Loads a spec file as a model, and reports every mistake in it at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xlac.ir.graph import Graph
from xlac.model import Model
from xlac.spec.elaborate.arithmetic import Constants
from xlac.spec.elaborate.context import MAX_NODES, Elaboration
from xlac.spec.elaborate.counting import Counted
from xlac.spec.elaborate.entries import elaborate
from xlac.spec.elaborate.handlers import HANDLERS
from xlac.spec.elaborate.scope import Frame, Scope
from xlac.spec.elaborate.unused import check_unused
from xlac.spec.interface import (
    check_outputs,
    declare_inputs,
    read_extents,
    read_outputs,
    read_state,
)
from xlac.spec.kernels.files import paths
from xlac.spec.kernels.files import read as read_kernels
from xlac.spec.placement import read_placement
from xlac.spec.report import Report
from xlac.spec.schema.document import Merged, read_document, resolved
from xlac.spec.schema.settings import DimValue, read_dims, read_params
from xlac.spec.sharding import read_sharding
from xlac.spec.training.objective import nodes_asked
from xlac.spec.training.section import Training, read_training
from xlac.spec.weights.find import find
from xlac.spec.weights.stored import Stored
from xlac.support.gc_pause import paused
from xlac_sdk.source import Diagnostic, SourceError, Span, UnsupportedError
from xlac_sdk.support.limits import checkpoint


class TrainedSpec(UnsupportedError):
    """A spec that trains was given where a model is expected: holds the model and its section
    `train`.
    """

    def __init__(self, model: Model, training: Training, span: Span | None) -> None:
        problem = "a spec with a section train has several programs, and none of them is chosen"
        hint = (
            "--entry step, evaluate or run, of commands that have it; for the model alone name "
            "the spec that this one includes; `xlac train` and xlac.trainer train it, "
            "`xlac build` writes all of them"
        )
        super().__init__(Diagnostic("XL5030", problem, span, hint))
        self.model, self.training = model, training


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
    Files outside the spec's folder are read only with `allow_outside`. `weights=False` omits the
    data of weights, but not that of constants, which belong to the graph. Raises SourceError with
    all mistakes, and UnsupportedError for a spec that trains unless `training` says that its
    section is only to be checked.
    """
    with paused():
        model, merged, learning = _load(
            Path(path), params or {}, dims or {}, allow_outside, weights
        )
    if merged.train is not None and learning is not None and not training:
        raise TrainedSpec(model, learning, merged.train.place.key)
    return model


def load_training(
    path: str | Path,
    *,
    params: Mapping[str, Any] | None = None,
    dims: Mapping[str, DimValue] | None = None,
    allow_outside: bool = False,
    weights: bool = True,
) -> tuple[Model, Training]:
    """The model of a spec that trains, as by `load`, and its section `train`. Raises SourceError,
    also for a spec without that section.
    """
    with paused():
        model, merged, learning = _load(
            Path(path), params or {}, dims or {}, allow_outside, weights
        )
    if learning is None:
        raise SourceError(
            Diagnostic(
                "XL5031",
                "this spec has no section train",
                merged.at.span,
                "include it in a spec that says loss and optimizer: docs/TRAINING.md",
            )
        )
    return model, learning


def _load(
    path: Path,
    params: Mapping[str, Any],
    dims: Mapping[str, DimValue],
    allow_outside: bool,
    weights: bool,
) -> tuple[Model, Merged, Training | None]:
    checkpoint("reading the spec")
    report = Report()
    merged = read_document(path, report, allow_outside)
    checkpoint("elaborating the spec")
    if merged is None:
        report.finish()
        raise AssertionError("a spec that cannot be read has a reason")
    sizes, symbols = read_dims(merged, dims, report)
    values = read_params(merged, params, sizes, report)
    broken = {name for section, name in report.broken if section in ("dims", "params")}
    constants = Constants(values, sizes, broken)
    stored = Stored(merged.weights, report, resolved(path).parent, allow_outside)
    kernels = read_kernels(merged, report, resolved(path).parent, allow_outside)
    context = Elaboration(report, merged.blocks, merged.ops, Frame(), stored, HANDLERS, kernels)
    scope = Scope(context.root, constants)
    scope.values.update(
        {name: None for section, name in report.broken if section in ("inputs", "state")}
    )
    inputs = declare_inputs(merged, context, scope)
    check_count(merged, constants, report)
    elaborate(context, scope, merged.graph)
    check_unused(context)
    check_outputs(merged, context)
    outputs = read_outputs(merged, context, scope)
    state = read_state(merged, context, scope, inputs, outputs)
    extents = read_extents(merged, outputs, report)
    training = None
    if merged.train is not None:
        training = read_training(
            merged.train, merged, context, scope, outputs, inputs, symbols, dims
        )
    arrays: Mapping[str, Any] = {}
    drawn = merged.train is not None and merged.train.spec.init is not None
    if weights and not report.diagnostics and not drawn:
        arrays = find(context.weights, stored, constants)
    graph = Graph(merged.name, tuple(inputs), outputs)
    asked = nodes_asked(training.objectives, training.metrics) if training is not None else {}
    ranks = read_sharding(merged, graph, asked, context.weights, report)
    place = read_placement(merged, graph, report)
    report.finish()
    model = Model(
        graph,
        arrays,
        symbols,
        merged.doc,
        merged.precision or "default",
        state,
        paths(kernels),
        extents,
        ranks=ranks,
        place=place,
    )
    return model, merged, training


def check_count(merged: Merged, constants: Constants, report: Report) -> None:
    """Reports a graph that expands to too many operations, before any is made. Raises
    SourceError.
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
