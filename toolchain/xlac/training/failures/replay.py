"""Runs a failed step again with checks, from the same state, to name the node that went wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xlac.ir.op import Array
from xlac.model import Model
from xlac.spec.summary import statistics
from xlac.support.failures import CheckFailed
from xlac.training.failures.culprit import culprit, is_choice
from xlac.training.shared_state import TrainingPrograms
from xlac_sdk.host.array_values import as_array
from xlac_sdk.source import Diagnostic, SourceError


def failure(
    models: Mapping[str, Model],
    options: Mapping[str, Any],
    state: Mapping[str, Array],
    arrays: Mapping[str, Any],
    calls: Sequence[tuple[str, Mapping[str, Any]]],
    loss_finite: bool,
    steps: int | None,
) -> SourceError:
    """The error for a step that was not finite (`FiniteFlags`); it has changed nothing. `steps`
    is the number of steps before it, if it is known, `calls` its entries and their micro-batches.
    Runs the step again to find the cause.
    """
    checked = (
        "the gradients or running statistics are" if _measures(models) else "the gradients are"
    )
    what = checked if loss_finite else "the loss is"
    which = "" if steps is None else f"step {steps + 1}: "
    problem = f"{which}{what} not finite; nothing was learned from this batch"
    problems = replayed(models, options, state, arrays, calls)
    hint = "a smaller rate, or look for NaN in the data; the state is as before the step"
    return SourceError(Diagnostic("XL6031", problem, hint=hint), *problems)


def _measures(models: Mapping[str, Model]) -> bool:
    """Whether steps write running statistics, such as those of batch_norm."""
    called = [models[name].graph for name in ("evaluate", "run") if name in models]
    return any(statistics(graph) for graph in called)


def replayed(
    models: Mapping[str, Model],
    options: Mapping[str, Any],
    state: Mapping[str, Array],
    arrays: Mapping[str, Any],
    calls: Sequence[tuple[str, Mapping[str, Any]]],
) -> tuple[Diagnostic, ...]:
    """What was wrong with a step: numbers of its batch or of the state that are not finite, or the
    first node that produces such numbers which reach the loss or a gradient, with its place. For a
    step of several micro-batches, or one too large to evaluate: the first node that checked
    programs report, with a note that its result may be discarded. None where these find nothing.
    """
    diagnostic = _first_non_finite("input", arrays) or _first_non_finite("", state)
    if diagnostic is None and len(calls) == 1:
        diagnostic = culprit(models["step"], state, calls[0][1])
    if diagnostic is not None:
        return (diagnostic,)
    chooses = any(is_choice(node) for node in models["evaluate"].graph.nodes())
    programs = TrainingPrograms(models, {**options, "checked": "all"})
    programs.begin({name: np.array(array) for name, array in state.items()})
    try:
        for entry, part in calls:
            programs.called(entry, part)
    except CheckFailed as failed:
        hint = "whether it reaches the loss is not known: a where may leave it out"
        return tuple(replace(d, hint=hint) if chooses else d for d in failed.diagnostics)
    except SourceError as error:  # a target that cannot check says so
        return tuple(error.diagnostics)
    return ()


def _first_non_finite(what: str, arrays: Mapping[str, Any]) -> Diagnostic | None:
    """The first number that is NaN or infinite in some arrays; `what` names their kind."""
    for name, given in arrays.items():
        array = as_array(given, None, name)
        if array.dtype.kind not in "fV":
            continue
        wrong = np.argwhere(~np.isfinite(array.astype(np.float64)))
        if len(wrong):
            at = tuple(int(n) for n in wrong[0])
            where = f" at {list(at)}" if at else ""
            more = f", and {len(wrong) - 1:,} more" if len(wrong) > 1 else ""
            problem = f"{what} {name!r} has {array[at]}{where}{more}".lstrip()
            return Diagnostic("XL6032", problem)
    return None
