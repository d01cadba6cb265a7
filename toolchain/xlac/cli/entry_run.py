"""`xlac run --entry step`: runs a step or an evaluation, of a spec or an artefact, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xlac.cli.choice import chosen, pairs
from xlac.cli.inputs import check_outputs, drawn, gather

if TYPE_CHECKING:
    from xlac.training.graphs import TrainingGraphs


# length of the run that a measured step belongs to, where its rate depends on it
MEASURED_LENGTH = 1000


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What is run once: the user's inputs (texts by name, an .npz), the seed of the others, and the
    outputs that are named on the command line.
    """

    arrays: dict[str, str]
    archive: Path | None
    seed: int
    outputs: tuple[str, ...]
    copy_weights: bool


def learned(results: dict[str, Any]) -> dict[str, Any]:
    """The results of a step or an evaluation, without the flag that something was learned. Raises
    SourceError where that is false.
    """
    from xlac.training.step import FINITE
    from xlac_sdk.host.entry_calls import not_finite

    if not results.get(FINITE, True):
        raise not_finite()
    return {name: array for name, array in results.items() if name != FINITE}


def spec_entry(
    numbers: tuple[str, ...], request: RunRequest, options: dict[str, Any]
) -> tuple[Any, dict[str, Any], str, int]:
    """Compiles a step or an evaluation of a spec that trains, with its first weights."""
    from xlac.api import compile
    from xlac.cli.models import opened
    from xlac.support.dependencies import copying

    choice = chosen(**options)
    with copying(request.copy_weights):
        model, graphs = opened(choice)
        check_outputs(request.outputs, model.graph.outputs)
        inputs = gather(model, request.arrays, request.archive, request.seed)
        names = ("threads", "cpu", "triple", "arch", "checked", "schedules", "passes")
        asked = {name: getattr(choice.options, name) for name in names}
        program = compile(model, choice.target, verify_each=choice.options.verify_each, **asked)
    assert graphs is not None  # `opened` rejects specs without them
    begin(program, graphs, pairs(numbers, "--number"), choice.entry)
    return program, inputs, choice.target, choice.threads


def artefact_entry(
    numbers: tuple[str, ...], request: RunRequest, options: dict[str, Any]
) -> tuple[Any, dict[str, Any], str, int]:
    """Loads an artefact for one of its entries, without importing the compiler."""
    from xlac.artefact.loader import load
    from xlac.cli.choice import artefact
    from xlac_sdk.host.entry_calls import asked

    entry = options["entry"]
    whole = load(artefact(options["spec"]), copy_weights=request.copy_weights)
    program = asked(whole.entries, entry)
    check_outputs(request.outputs, program.outputs)
    for name, text in pairs(numbers, "--number").items():
        whole.state.set_number(name, number_of(name, text))
    inputs = drawn(program.program, request.arrays, request.archive, request.seed)
    return program, inputs, whole.manifest.target, 1


def number_of(name: str, text: str) -> float:
    """A number of --number. A usage error for other text."""
    try:
        return float(text)
    except ValueError:
        raise click.UsageError(f"--number {name} takes a number, not '{text}'") from None


def beginning(graphs: TrainingGraphs | None) -> Callable[[Any], object]:
    """A function that gives a measured program the initial state of a run of MEASURED_LENGTH steps;
    None where it does not train.
    """
    from xlac.training.settings import settings

    def begun(program: Any) -> None:
        if graphs is not None:
            numbers = {"length": str(MEASURED_LENGTH)} if "length" in settings(graphs) else {}
            begin(program, graphs, numbers, None)

    return begun


def begin(
    program: Any, graphs: TrainingGraphs, numbers: Mapping[str, str], entry: str | None
) -> None:
    """Gives a compiled entry the initial state, with numbers set by `--number`. Raises SourceError
    for a step that needs the length of the run, where that is not set.
    """
    import numpy as np

    from xlac.training.entries import state_block
    from xlac.training.settings import settings
    from xlac_sdk.host.call_binding import unknown
    from xlac_sdk.host.entry_calls import no_length, setting_number

    state = {tensor.name: tensor.initial() for tensor in graphs.state}
    known = settings(graphs)
    for name, text in numbers.items():
        if name not in known:
            raise unknown("setting", name, tuple(known))
        number = setting_number(name, number_of(name, text))
        for tensor, value in known[name].values(number).items():
            state[tensor] = np.asarray(value, state[tensor].dtype)
    if entry == "step" and "length" in known and "length" not in numbers:
        raise no_length()
    program.executable.write_state(state_block(program.program, state))
