"""Shared by `xlac bench` and `xlac profile`: options, and the model that is measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from xlac.cli.choice import pairs
from xlac.cli.options import (
    Command,
    entry_option,
    input_options,
    memory_option,
    running,
    schedule_option,
    spec_options,
    target_options,
)

if TYPE_CHECKING:
    from xlac.driver import Lowered
    from xlac_sdk.backend import Backend
    from xlac_sdk.target import Target


def measured_options(function: Command) -> Command:
    """SPEC, how it is compiled, its inputs, and --seconds."""
    seconds = click.option(
        "--seconds",
        type=click.FloatRange(min=0.01),
        default=1.0,
        show_default=True,
        help="Time to measure for.",
    )
    for option in (
        seconds,
        running,
        input_options,
        entry_option,
        memory_option,
        schedule_option,
        target_options,
        spec_options,
    ):
        function = option(function)
    return function


class MeasuredModel(NamedTuple):
    """A lowered model, its inputs by name, and the graphs of its training, if it trains."""

    model: Any
    graphs: Any
    arrays: Any
    backend: Backend
    facts: Target
    lowered: Lowered


def lowered_with_inputs(
    choice: Any, given: tuple[str, ...], archive: Path | None, seed: int, copy_weights: bool
) -> MeasuredModel:
    """The model given by the options, lowered for its target, with the user's inputs, and random
    ones for the others.
    """
    from xlac.cli.models import supplied
    from xlac.driver import lower
    from xlac.support.dependencies import copying
    from xlac_sdk.host.registry import find

    backend = find(choice.target)
    with copying(copy_weights):
        model, graphs, arrays = supplied(choice, pairs(given, "--input"), archive, seed)
        facts = backend.target(choice.options.request)
        lowered = lower(model, facts, wanted=choice.wanted, memory=choice.memory)
    return MeasuredModel(model, graphs, arrays, backend, facts, lowered)
