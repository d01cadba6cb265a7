"""Options shared by several verbs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from xlac.cli.numbers import SEED, FiniteRange
from xlac.cli.placing import place_option

Command = TypeVar("Command", bound=Callable[..., Any])


def bounded(function: Command) -> Command:
    """Runs the command within --max-compile-seconds and --max-compile-memory; a terminal shows its
    stages, and --timing how long they took.
    """

    @wraps(function)
    def command(
        *given: Any,
        max_compile_seconds: float | None,
        max_compile_memory: str | None,
        timing: bool,
        **named: Any,
    ) -> Any:
        from xlac.cli.progress import Progress
        from xlac_sdk.support.limits import telling, within

        memory = None
        if max_compile_memory is not None:
            from xlac.memory.limit import parse

            memory = parse(max_compile_memory)
        with (
            Progress(f"reading {Path(named['spec'] or 'the model').name}") as progress,
            telling(progress.stage),
            within(max_compile_seconds, memory),
        ):
            if not timing:
                return function(*given, **named)
            from xlac.debug.report.stage_times import StageTimes

            times = StageTimes()
            try:
                with times.watching("reading the model"):
                    return function(*given, **named)
            finally:
                click.echo(times.text(), err=True)

    return command  # type: ignore[return-value]


def spec_options(function: Command, required: bool = True) -> Command:
    """SPEC, --dim, --set, --allow-outside, --signature, --trusted, --max-compile-seconds,
    --max-compile-memory and --timing.
    """
    decorators = [
        click.argument("spec", type=click.Path(path_type=Path), required=required),
        click.option(
            "--dim",
            "dim",
            multiple=True,
            metavar="NAME=N",
            help="Fix a symbolic size, or narrow it: 1..8, 4.., ..8.",
        ),
        click.option(
            "--set",
            "sets",
            multiple=True,
            metavar="NAME=VALUE",
            help="Override a param of the spec; fix an input of an imported model, as [2, "
            "3] or @file.npy.",
        ),
        click.option(
            "--allow-outside", is_flag=True, help="Let the spec name files outside its folder."
        ),
        click.option(
            "--signature",
            default="",
            metavar="NAME",
            help="The model to take, of a .tflite file or a SavedModel with several.",
        ),
        click.option(
            "--trusted", is_flag=True, help="Load a SavedModel, which runs code that it contains."
        ),
        click.option(
            "--max-compile-seconds",
            type=FiniteRange(0, min_open=True),
            default=None,
            metavar="N",
            help="Fail when reading and compiling take longer.",
        ),
        click.option(
            "--max-compile-memory",
            default=None,
            metavar="N",
            help="Fail when reading and compiling take more memory. K, M, G.",
        ),
        click.option(
            "--timing",
            is_flag=True,
            help="Print how long each stage, pass and kernel took to compile.",
        ),
    ]
    function = bounded(function)
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def running(function: Command) -> Command:
    """--timeout, --allow-long and --copy-weights of a command that calls programs: the function
    runs within the time-out, compiling apart.
    """
    decorators = [
        click.option(
            "--timeout",
            type=FiniteRange(0, min_open=True),
            default=None,
            metavar="SECONDS",
            help="End calls that take longer, with exit code 4; compiling does not count.",
        ),
        click.option(
            "--allow-long",
            is_flag=True,
            help="Run even if the call takes more than an hour at best.",
        ),
        click.option(
            "--copy-weights",
            is_flag=True,
            help="Read files of weights instead of mapping them, if they may change meanwhile.",
        ),
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def input_options(function: Command) -> Command:
    """--input, --inputs and --seed of a command that calls programs: `given`, `archive`, `seed`."""
    decorators = [
        click.option(
            "--input",
            "-i",
            "given",
            multiple=True,
            metavar="NAME=VALUE",
            help="FILE.npy, numbers (2.5 or 1,2,3), random, zeros, ones, or a literal with its "
            "type such as 2x64xf32=0.5,…",
        ),
        click.option(
            "--inputs",
            "archive",
            type=click.Path(path_type=Path),
            help="A .npz with inputs by name.",
        ),
        click.option(
            "--seed", type=SEED, default=0, show_default=True, help="Seed of random inputs."
        ),
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def machine_options(function: Command) -> Command:
    """--target, --threads, --cpu, --triple and --arch."""
    decorators = [
        click.option(
            "--target", "-t", default="cpu", show_default=True, help="The backend to compile for."
        ),
        click.option(
            "--threads",
            type=click.IntRange(1, 1024),
            default=None,
            help="Threads; default XLAC_THREADS or 1.",
        ),
        click.option("--cpu", default="", help="The processor to compile for; default this one."),
        click.option("--triple", default="", help="The LLVM target triple to compile for."),
        click.option(
            "--arch",
            default="",
            help="The GPU architecture to compile for (sm_90a); default this machine's.",
        ),
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def kernels_option(function: Command) -> Command:
    """--allow-kernels and --no-kernels."""
    return click.option(
        "--allow-kernels/--no-kernels",
        "allow_kernels",
        default=None,
        help=(
            "Compile and run the hand-written kernels that SPEC names, which are code; or "
            "compute the operations' definitions."
        ),
    )(function)


def target_options(function: Command) -> Command:
    """Those of `machine_options`, --place, --precision, --checked, --checks, --allow-kernels."""
    decorators = [
        machine_options,
        place_option,
        kernels_option,
        click.option(
            "--precision",
            type=click.Choice(["default", "fast"]),
            default=None,
            help="Rounding that compiling may change, overriding SPEC; docs/SPEC.md defines fast.",
        ),
        click.option(
            "--checked",
            is_flag=True,
            help="Report indices out of range, NaN, and integers divided by 0: see docs/SPEC.md.",
        ),
        click.option(
            "--checks",
            default=None,
            metavar="KINDS",
            help="The same for some of bounds, division, nan, infinity, sizes, or for all.",
        ),
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


class EntryName(click.Choice[str]):
    """A parameter type: one of some entry names, or accumulate_LOSS for a loss of the spec."""

    def convert(self, value: str, *rest: Any) -> str:
        """The name. A usage error for another one."""
        return value if value.startswith("accumulate_") else super().convert(value, *rest)


def entry_option(function: Command) -> Command:
    """--entry, of commands that take specs with a section `train`."""
    return click.option(
        "--entry",
        type=EntryName(["step", "accumulate", "evaluate", "run", "evaluate_ema", "run_ema"]),
        default=None,
        help="Of a spec that trains: its step, its evaluation or the model itself; "
        "accumulate is a micro-batch before the last (accumulate_LOSS, where losses take turns).",
    )(function)


def schedule_option(function: Command) -> Command:
    """--schedule, of commands that compile."""
    return click.option(
        "--schedule",
        "--tuning",
        "schedule",
        type=click.Path(path_type=Path),
        default=None,
        metavar="FILE",
        help="Use these schedules: what `xlac tune` found, or an edited output of `xlac inspect "
        "--stage schedules`.",
    )(function)


def memory_option(function: Command) -> Command:
    """--max-memory, of commands that compile."""
    return click.option(
        "--max-memory",
        default=None,
        metavar="N",
        help="Most memory of a call beside its arrays; other values are recomputed. K, M, G.",
    )(function)


def pass_options(function: Command) -> Command:
    """--passes and --verify-each."""
    decorators = [
        click.option(
            "--passes",
            default="",
            metavar="PIPELINE",
            help="The optimizer's passes, with their options in braces; "
            "inspect --stage passes has the usual ones.",
        ),
        click.option(
            "--verify-each",
            is_flag=True,
            help="Verify the graph after every pass that changed it, "
            "and name the pass that broke it.",
        ),
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function
