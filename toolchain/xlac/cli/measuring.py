"""Shared by commands that call programs: options, the model that is measured, limits on calls."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from xlac.cli.choice import pairs
from xlac.cli.numbers import FiniteRange
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
from xlac.debug.run_comparison import TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from xlac.driver import Lowered
    from xlac.passes.pipeline import Observer
    from xlac_sdk.backend import Backend
    from xlac_sdk.programs.program import Program
    from xlac_sdk.source import SourceError
    from xlac_sdk.target import Target


def measured_options(function: Command) -> Command:
    """SPEC, how it is compiled, its inputs, and --seconds."""
    seconds = click.option(
        "--seconds",
        type=FiniteRange(min=0.01),
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


def tuned_options(function: Command) -> Command:
    """SPEC, how it is compiled, and its inputs, of a command that looks for schedules itself."""
    copying = click.option(
        "--copy-weights",
        is_flag=True,
        help="Read files of weights instead of mapping them, if they may change meanwhile.",
    )
    for option in (
        copying,
        input_options,
        entry_option,
        memory_option,
        target_options,
        spec_options,
    ):
        function = option(function)
    return function


def baseline_options(function: Command) -> Command:
    """--baseline FILE and --tolerance."""
    for option in (
        click.option(
            "--tolerance",
            type=FiniteRange(min=0),
            default=TOLERANCE,
            show_default=True,
            help="With --baseline: changes within this share are no difference.",
        ),
        click.option(
            "--baseline",
            type=click.Path(path_type=Path),
            default=None,
            metavar="FILE",
            help="What --json printed before: compare, and exit with 1 if calls are slower now.",
        ),
    ):
        function = option(function)
    return function


def baseline_result(file: Path | None) -> dict[str, Any] | None:
    """What a run of `xlac bench --json` printed into a file. Raises SourceError if it did not."""
    if file is None:
        return None
    import json

    from xlac_sdk.support.files import regular

    try:
        result = json.loads(regular(file).read_text(encoding="utf-8"))
    except ValueError as error:  # of JSON and of UTF-8
        raise not_a_baseline(file, str(error)) from None
    if not isinstance(result, dict):
        raise not_a_baseline(file, "it is not a JSON object")
    return {**result, "file": file}


def not_a_baseline(file: Path, why: str) -> SourceError:
    """The error for a file that --baseline cannot take."""
    from xlac_sdk.source import Diagnostic, SourceError

    problem = f"{file} is not a baseline of this run: {why}"
    hint = "xlac bench MODEL --json > FILE writes one"
    return SourceError(Diagnostic("XL6009", problem, hint=hint))


@dataclass(frozen=True, slots=True)
class Gate:
    """How the result of a benchmark is shown, and what it is compared with, if with anything."""

    before: dict[str, Any] | None
    tolerance: float
    as_json: bool

    def shown(self, result: dict[str, Any], tell: Callable[[dict[str, Any]], object]) -> int:
        """Prints a result, by `tell` where that is not JSON; 1 if it is slower than before.
        Raises SourceError for a baseline of something else.
        """
        import json

        from xlac.debug.run_comparison import compared

        comparison = None
        if self.before is not None:
            try:
                comparison = compared(self.before, result, self.tolerance)
            except ValueError as error:
                raise not_a_baseline(self.before["file"], str(error)) from None
        if self.as_json:
            more = {} if comparison is None else {"comparison": comparison.json()}
            click.echo(json.dumps(result | more))
        else:
            tell(result)
            if comparison is not None:
                click.echo(f"  baseline  {comparison}")
                for doubt in comparison.doubts:
                    click.echo(f"  not to be trusted: {doubt}")
        return int(comparison is not None and comparison.verdict == "slower")


class MeasuredModel(NamedTuple):
    """A lowered model, its inputs by name, and the graphs of its training, if it trains."""

    model: Any
    graphs: Any
    arrays: Any
    backend: Backend
    facts: Target
    lowered: Lowered


class SuppliedModel(NamedTuple):
    """A model, the graphs of its training, if it trains, and its inputs by name."""

    model: Any
    graphs: Any
    arrays: Any


def supplied_model(
    choice: Any, given: tuple[str, ...], archive: Path | None, seed: int, copy_weights: bool
) -> SuppliedModel:
    """The model given by the options, with the user's inputs, and random ones for the others."""
    from xlac.cli.models import supplied
    from xlac.support.dependencies import copying

    with copying(copy_weights):
        return SuppliedModel(*supplied(choice, pairs(given, "--input"), archive, seed))


def lowered_with_inputs(
    choice: Any, read: SuppliedModel, copy_weights: bool, observers: Sequence[Observer] = ()
) -> MeasuredModel:
    """The model lowered for its target. `observers` are told of its passes."""
    from xlac.driver import lower
    from xlac.support.dependencies import copying
    from xlac_sdk.host.registry import find

    backend = find(choice.target)
    with copying(copy_weights):
        facts = backend.target_for(choice.options.request)
        lowered = lower(
            read.model, facts, wanted=choice.wanted, memory=choice.memory, observers=observers
        )
    return MeasuredModel(read.model, read.graphs, read.arrays, backend, facts, lowered)


@contextmanager
def calling(
    program: Program, target: str, threads: int, timeout: float | None, allow_long: bool
) -> Iterator[None]:
    """For calls of a program: rejects or warns about absurdly long ones, and starts the
    time-out.
    """
    from xlac.debug import effort
    from xlac_sdk.host.registry import find
    from xlac_sdk.host.stopping import timeout as limited

    known = "flops" in program.facts  # absent in programs without steps
    flops, nbytes = (
        (program.facts["flops"], program.facts["bytes"])
        if known
        else (program.work.flops, program.work.bytes)
    )
    peak = find(target).peak_flops(threads)
    if not allow_long:
        effort.check(flops, nbytes, target, threads, peak)
    long = effort.warning(flops, nbytes, target, threads, peak)
    if long:
        click.echo(f"warning: {long}", err=True)
    if timeout is None:
        yield
        return
    with limited(timeout):
        yield
