"""What `xlac build` needs of a backend: the forms of a package, and the processors to compile
for.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from xlac.cli.choice import Chosen

if TYPE_CHECKING:
    from xlac_sdk.backend import Backend
    from xlac_sdk.host.package import Packaging
    from xlac_sdk.target import Target


class FormsOption(click.Option):
    """An option whose help lists the forms of every installed target, which are loaded for the help
    only.
    """

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The option and its help, with the forms that are available."""
        self.help = f"What to write, with commas: {forms_by_target()}."
        return super().get_help_record(ctx)


def forms_by_target() -> str:
    """`FORMS (TARGET); …` for the installed targets that have forms."""
    from xlac_sdk.host.registry import find, installed
    from xlac_sdk.source import XlacError

    listed = []
    for name in installed():
        with suppress(XlacError):
            if forms := find(name).forms:
                listed.append(f"{' '.join(forms)} ({name})")
    return "; ".join(listed)


def packaging(
    backend: Backend, emitted: str | None, where: str | None, static: bool, libm: bool
) -> Packaging:
    """The backend's package options. Raises for an unsupported form or place of the weights."""
    from xlac_sdk.host.package import Packaging, forms, offered
    from xlac_sdk.programs.constants import WeightsOrigin
    from xlac_sdk.source import Diagnostic, UnsupportedError

    names = forms(backend, emitted) if emitted is not None else backend.usual
    if not names and (where or static or not libm):
        problem = "--weights, --static and --no-libm choose how packages are written"
        raise UnsupportedError(Diagnostic("XL5011", problem, hint=offered(backend)))
    if static and "exe" in backend.forms and "exe" not in names:
        problem = f"--static links a program, but the forms are {', '.join(names)}"
        raise UnsupportedError(Diagnostic("XL5011", problem, hint="--emit exe"))
    return Packaging(names, WeightsOrigin(where or "embed"), static, libm)


def machines(
    backend: Backend, choice: Chosen, wanted: Packaging, threads: int | None, small: bool
) -> list[Target]:
    """The processors to compile for, as listed by `--cpu`. Code compiled ahead of time runs on its
    caller's thread.
    """
    from xlac_sdk.source import Diagnostic, SourceError

    cpus = choice.options.cpu.split(",")
    if not wanted.forms and len(cpus) > 1:
        problem = f"target '{choice.target}' compiles for one processor at a time"
        raise SourceError(Diagnostic("XL5101", problem, hint=f"--cpu {cpus[0]}"))
    if wanted.forms:
        if threads is not None and threads > 1:
            problem = "code compiled ahead of time runs on its caller's thread"
            raise SourceError(Diagnostic("XL5005", problem, hint="leave --threads out"))
        choice = choice.with_options(threads=1)
    if choice.options.facts is None:  # artefacts do not depend on measurements of this machine
        choice = choice.with_options(facts=())
    asked = [choice.with_options(cpu=cpu.strip()).options.request for cpu in cpus]
    return [backend.target_for(replace(one, size=small, ahead=True)) for one in asked]
