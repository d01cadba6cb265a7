"""What commands that write a model as other files share: reading it, refusing to replace files, and
the list of what was written.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xlac.cli.amounts import size
from xlac.cli.progress import current

if TYPE_CHECKING:
    from xlac.cli.choice import Chosen
    from xlac.model import Model


def read(choice: Chosen) -> Model:
    """The model that a command was given. Raises SourceError."""
    from xlac.frontends.loader import load

    current().stage(f"reading {choice.spec.name}")
    return load(
        choice.spec,
        dims=choice.options.dims,
        params=choice.options.params,
        allow_outside=choice.allow_outside,
        signature=choice.options.signature,
        trusted=choice.trusted,
    )


def listed(files: Iterable[Path]) -> None:
    """Prints files with their sizes."""
    for file in files:
        click.echo(f"  {file}  {size(file.stat().st_size)}")


def refuse_existing(files: list[Path], force: bool) -> None:
    """Raises SourceError for existing files, unless `force`."""
    from xlac_sdk.source import Diagnostic, SourceError

    there = [file for file in files if file.exists()]
    if any(file.is_dir() for file in there) or (there and not force):
        names = " and ".join(f"'{file}'" for file in there)
        raise SourceError(
            Diagnostic(
                "XL3016",
                f"{names} exist{'' if len(there) > 1 else 's'} already",
                hint="choose another name with -o, or replace files with --force",
            )
        )
