"""The options of a command, read and checked."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xlac.cli.facts import facts_given
from xlac.cli.placing import places
from xlac.support.file_kinds import is_saved_model

if TYPE_CHECKING:
    from xlac.codegen.schedules.document import Asked
    from xlac.memory.limit import MemoryLimit
    from xlac.options import CompileOptions
    from xlac.passes.pipeline import Pipeline


INTEGER = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True, slots=True)
class Chosen:
    """The options of a command: the spec, the target, and how to compile."""

    spec: Path
    target: str
    options: CompileOptions
    allow_outside: bool = False
    entry: str | None = None  # of a spec that trains
    usual: str | None = None  # its entry where none is given
    trusted: bool = False  # whether a SavedModel, which is code, may be loaded

    @property
    def threads(self) -> int:
        """The number of threads of a call."""
        return self.options.request.threads

    @property
    def wanted(self) -> Asked:
        """The schedules given by --schedule. Raises SourceError for a file without any."""
        from xlac.codegen.schedules.document import read

        return read(self.options.schedules)

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline given by --passes. Raises SourceError for invalid text."""
        from xlac.passes.pipeline import Pipeline

        return Pipeline.asked(self.options.passes)

    @property
    def memory(self) -> MemoryLimit | None:
        """The limit given by --max-memory. Raises SourceError for an invalid amount."""
        from xlac.memory.limit import MemoryLimit

        return MemoryLimit.of(self.options.max_memory)

    def with_options(self, **changes: Any) -> Chosen:
        """The same choice, some of its options changed."""
        return replace(self, options=replace(self.options, **changes))


def pairs(texts: Sequence[str], option: str, alone: str | None = None) -> dict[str, str]:
    """Texts `name=value` as a dict; a usage error for one without `=`, or a duplicate name.

    A name without `=` has the value `alone`, where that is given.
    """
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals and name and alone is not None:
            value = alone
        elif not equals or not name:
            raise click.UsageError(f"{option} takes name=value, not '{text}'")
        if name in values:
            raise click.UsageError(f"{option} gives '{name}' twice")
        values[name] = value
    return values


def _size(text: str) -> int | str:
    return _integer(text) if INTEGER.fullmatch(text) else text


def _integer(text: str) -> int:
    """An integer in decimal digits. Raises SourceError for too many of them."""
    from xlac.options import DIGITS, too_long

    if len(text.lstrip("+-")) > DIGITS:
        raise too_long(f"{text[:20]}…")
    return int(text)


def _scalar(text: str) -> object:
    """A number, a truth, null, a list of these as `[2, 3]`, an array as `@file.npy`, or text."""
    if text.startswith("["):
        return _listed(text)
    if text.startswith("@") and text.endswith(".npy"):
        from xlac.cli.arrays import load_npy

        return load_npy(Path(text[1:]), text)
    if INTEGER.fullmatch(text):
        return _integer(text)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False, "null": None}.get(text, text)


def _listed(text: str) -> object:
    """A nested list of numbers; other text unchanged."""
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def variants(texts: tuple[str, ...]) -> list[dict[str, Any]]:
    """Sizes by name, from texts such as `batch=8,past=1024`."""
    return [
        {name: _size(value) for name, value in pairs(text.split(","), "--variant").items()}
        for text in texts
    ]


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
    entry: str | None = None,
    max_memory: str | None = None,
    allow_kernels: bool | None = None,
    facts: str | None = None,
    signature: str = "",
    trusted: bool = False,
    place: tuple[str, ...] = (),
    usual: str | None = None,
) -> Chosen:
    """The values of these options, read and checked; of a spec that trains, the entry `usual` where
    none is given.
    """
    dims = {name: _size(value) for name, value in pairs(dim, "--dim", alone="..").items()}
    params = {name: _scalar(value) for name, value in pairs(sets, "--set").items()}
    from xlac.options import CompileOptions

    options = CompileOptions(
        dims=dims,
        params=params,
        threads=threads,
        cpu=cpu,
        triple=triple,
        arch=arch,
        precision=precision or "",
        checked=checks or (True if checked else None),
        schedules=schedule,
        passes=passes,
        verify_each=verify_each,
        max_memory=max_memory,
        allow_kernels=allow_kernels,
        facts=None if facts is None else facts_given(facts),
        signature=signature,
        place=places(place, target),
    )
    return Chosen(spec, target, options, allow_outside, entry, usual, trusted)


OF_ARTEFACTS = frozenset(
    (
        "spec given archive seed wanted written expected rtol atol entry numbers timeout "
        "allow_long copy_weights seconds as_json baseline tolerance others against plot as_csv "
        "counted"
    ).split()
)
"""Parameters of commands that apply to artefacts, which are compiled already; no others do."""

OF_PASSES = frozenset(
    (
        "spec dim sets allow_outside signature trusted max_compile_seconds max_compile_memory "
        "target threads cpu triple arch small allow_kernels precision checked checks passes "
        "verify_each dump until start edited traced time_passes list_passes"
    ).split()
)
"""Parameters that apply where only passes are run."""


def is_artefact(spec: Path) -> bool:
    """Whether the argument is the folder of an artefact rather than a spec."""
    return spec.is_dir() and not is_saved_model(spec)


def artefact(spec: Path) -> Path:
    """The folder of an artefact. A usage error for options on reading or compiling a spec."""
    for option in given_options(OF_ARTEFACTS):
        raise click.UsageError(f"{option} is for specs; an artefact is as it was built")
    return spec


def refuse_writing() -> None:
    """Raises a usage error for options of `xlac build --until` on how an artefact is written."""
    for option in given_options(OF_PASSES):
        raise click.UsageError(f"{option} is for what is written; --until prints a graph")


OF_TENSORFLOW = ("signature", "trusted")
"""Parameters that apply to models of TensorFlow alone."""


def refuse_tensorflow(what: str) -> None:
    """Raises a usage error for options on models of TensorFlow; `what` the command takes."""
    known = {option.name for option in click.get_current_context().command.params}
    for option in given_options({name for name in known if name not in OF_TENSORFLOW}):
        raise click.UsageError(f"{option} is for models of TensorFlow; this command takes {what}")


def given_options(known: Collection[str]) -> list[str]:
    """The options given to the current command, except the parameters in `known`, as they are
    written.
    """
    context = click.get_current_context()
    usual = (click.core.ParameterSource.DEFAULT, click.core.ParameterSource.DEFAULT_MAP)
    return [
        _written(option, context.params.get(option.name))
        for option in context.command.params
        if option.name is not None
        and option.name not in known
        and context.get_parameter_source(option.name) not in (None, *usual)
    ]


def _written(option: click.Parameter, value: Any) -> str:
    """An option in its long form; for a flag, the variant that was given."""
    forms = option.secondary_opts if value is False and option.secondary_opts else option.opts
    return max(forms, key=len)
