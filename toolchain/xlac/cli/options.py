"""Options that several verbs share, and how their values are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from xlac.codegen.schedules.document import Asked
    from xlac.options import CompileOptions
    from xlac.passes.pipeline import Pipeline
    from xlac_sdk.programs.program import Program
    from xlac_sdk.target import Request

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the user chose: the spec, its sizes and parameters, and the target."""

    spec: Path
    target: str = "cpu"
    threads: int = 1
    cpu: str = ""
    triple: str = ""
    dims: dict[str, int | str] = field(default_factory=dict)
    params: dict[str, object] = field(default_factory=dict)
    allow_outside: bool = False
    arch: str = ""
    precision: str = ""
    checked: bool | str | None = None  # as `xlac.compile` takes it
    schedule: Path | None = None
    passes: str = ""
    verify_each: bool = False

    @property
    def compile_options(self) -> CompileOptions:
        """What of this `xlac.compile` would be asked."""
        from xlac.options import CompileOptions

        return CompileOptions(
            dims=self.dims,
            params=self.params,
            threads=self.threads,
            cpu=self.cpu,
            triple=self.triple,
            arch=self.arch,
            precision=self.precision,
            checked=self.checked,
            schedules=self.schedule,
            passes=self.passes,
            verify_each=self.verify_each,
        )

    @property
    def wanted(self) -> Asked:
        """The schedules that are asked for. Raises SourceError for a file that has none."""
        from xlac.codegen.schedules.document import read

        return read(self.schedule)

    @property
    def pipeline(self) -> Pipeline:
        """The passes that `--passes` names. Raises SourceError for what is no pipeline."""
        from xlac.passes.pipeline import DEFAULT, Pipeline

        return Pipeline.parse(self.passes) if self.passes else DEFAULT


def request(choice: Chosen) -> Request:
    """What the choice asks of a backend."""
    from xlac_sdk.target import Request

    return Request(cpu=choice.cpu, triple=choice.triple, arch=choice.arch, threads=choice.threads)


def pairs(texts: Sequence[str], option: str, alone: str | None = None) -> dict[str, str]:
    """`name=value` texts as a dict; a usage error for one without `=`, or a name given twice.

    A name without `=` has the value `alone`, where there is such.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals and name and alone is not None:
            value = alone
        elif not equals or not name:
            raise click.UsageError(f"{option} takes name=value, not '{text}'")
        if name in found:
            raise click.UsageError(f"{option} gives '{name}' twice")
        found[name] = value
    return found


def _size(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdigit() else text


def _scalar(text: str) -> object:
    """A number, a truth, null, a list of these as `[2, 3]`, an array as `@file.npy`, or text."""
    if text.startswith("["):
        return _listed(text)
    if text.startswith("@") and text.endswith(".npy"):
        from xlac.cli.arrays import load_npy

        return load_npy(Path(text[1:]), text)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False, "null": None}.get(text, text)


def _listed(text: str) -> object:
    """A list of numbers, also of lists; other text as it is."""
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def variants(texts: tuple[str, ...]) -> list[dict[str, Any]]:
    """Sizes by name, of texts `batch=8,past=1024`."""
    return [
        {name: _size(value) for name, value in pairs(text.split(","), "--variant").items()}
        for text in texts
    ]


def bounded(function: Command) -> Command:
    """The command within what --max-compile-seconds and --max-compile-memory allow to reading and
    compiling; a terminal shows its stages.
    """

    @wraps(function)
    def command(
        *given: Any, max_compile_seconds: float | None, max_compile_memory: str | None, **named: Any
    ) -> Any:
        from xlac.cli.progress import Progress
        from xlac_sdk.support.limits import telling, within

        memory = None
        if max_compile_memory is not None:
            from xlac.memory.limit import parse

            memory = parse(max_compile_memory)
        with (
            Progress(f"reading {Path(named['spec']).name}") as progress,
            telling(progress.stage),
            within(max_compile_seconds, memory),
        ):
            return function(*given, **named)

    return command  # type: ignore[return-value]


def spec_options(function: Command) -> Command:
    """SPEC, --dim, --set and --allow-outside; --max-compile-seconds and --max-compile-memory."""
    decorators = [
        click.argument("spec", type=click.Path(path_type=Path)),
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
            help="Override a param of the spec; fix an input of an imported model, as [2, 3] or @file.npy.",
        ),
        click.option(
            "--allow-outside", is_flag=True, help="Let the spec name files outside its folder."
        ),
        click.option(
            "--max-compile-seconds",
            type=click.FloatRange(0, min_open=True),
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
            type=click.FloatRange(0, min_open=True),
            default=None,
            metavar="SECONDS",
            help="End calls, with exit code 4, that are not done after so long, compiling apart.",
        ),
        click.option(
            "--allow-long", is_flag=True, help="Run work that takes more than an hour at best."
        ),
        click.option(
            "--copy-weights",
            is_flag=True,
            help="Read files of weights instead of mapping them: they may be written to meanwhile.",
        ),
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


@contextmanager
def calling(
    program: Program, target: str, threads: int, timeout: float | None, allow_long: bool
) -> Iterator[None]:
    """Calls of a program: what would take absurdly long is refused or said first, and the time-out
    begins here.
    """
    from xlac.debug import effort
    from xlac_sdk.host.stopping import timeout as limited

    known = "flops" in program.facts  # of one that has no steps any more
    flops, nbytes = (
        (program.facts["flops"], program.facts["bytes"])
        if known
        else (program.work.flops, program.work.bytes)
    )
    if not allow_long:
        effort.check(flops, nbytes, target, threads)
    long = effort.told(flops, nbytes, target, threads)
    if long:
        click.echo(f"warning: {long}", err=True)
    if timeout is None:
        yield
        return
    with limited(timeout):
        yield


def target_options(function: Command) -> Command:
    """--target, --threads, --cpu, --triple, --arch, --precision, --checked and --checks."""
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
        click.option(
            "--precision",
            type=click.Choice(["default", "fast"]),
            default=None,
            help="What compiling may do to rounding, whatever SPEC says; docs/SPEC.md has what fast permits.",
        ),
        click.option(
            "--checked",
            is_flag=True,
            help="Report indices out of range, NaN that appears, integers divided by 0: docs/SPEC.md has more.",
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


def schedule_option(function: Command) -> Command:
    """--schedule, of commands that compile."""
    return click.option(
        "--schedule",
        type=click.Path(path_type=Path),
        default=None,
        metavar="FILE",
        help="Write kernels by these schedules, of `xlac inspect --stage schedules` and edited.",
    )(function)


def pass_options(function: Command) -> Command:
    """--passes and --verify-each."""
    decorators = [
        click.option(
            "--passes",
            default="",
            metavar="PIPELINE",
            help="The optimizer's passes, with their options in braces; inspect --stage passes has the usual ones.",
        ),
        click.option(
            "--verify-each",
            is_flag=True,
            help="Verify the graph after every pass that changed it, and name the pass that broke it.",
        ),
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def chosen(
    spec: Path,
    dim: tuple[str, ...],
    sets: tuple[str, ...],
    allow_outside: bool,
    target: str = "cpu",
    threads: int | None = None,
    cpu: str = "",
    triple: str = "",
    arch: str = "",
    precision: str | None = None,
    checked: bool = False,
    checks: str | None = None,
    schedule: Path | None = None,
    passes: str = "",
    verify_each: bool = False,
) -> Chosen:
    """The values of these groups of options, read and checked."""
    dims = {name: _size(value) for name, value in pairs(dim, "--dim", alone="..").items()}
    params = {name: _scalar(value) for name, value in pairs(sets, "--set").items()}
    from xlac.settings import settings

    looked = checks or (True if checked else None)
    return Chosen(
        spec,
        target,
        threads or settings().threads,
        cpu,
        triple,
        dims,
        params,
        allow_outside,
        arch,
        precision or "",
        looked,
        schedule,
        passes,
        verify_each,
    )


def is_artefact(spec: Path) -> bool:
    """Whether the user named a folder that `xlac build` made, rather than a spec."""
    return spec.is_dir()


def artefact(spec: Path, **options: Any) -> Path:
    """The folder of an artefact. A usage error for an option that only compiling has."""
    for name in (
        "dim",
        "sets",
        "threads",
        "cpu",
        "triple",
        "arch",
        "precision",
        "checked",
        "checks",
        "schedule",
        "passes",
        "verify_each",
    ):
        if options.get(name):
            option = "--set" if name == "sets" else f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{option} is for specs; an artefact is as it was built")
    return spec
