"""`xlac simplify`: an ONNX model with fewer operators."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from xlac.cli.choice import chosen, refuse_tensorflow
from xlac.cli.options import spec_options


@click.command(name="simplify")
@spec_options
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    default=None,
    help="The file; default NAME.simple.onnx here.",
)
@click.option(
    "--largest",
    default="64K",
    metavar="N",
    help="The most bytes of a computed constant that is larger than what it is made from. K, M, G.",
)
@click.option("--force", is_flag=True, help="Replace existing files.")
def command(output: Path | None, largest: str, force: bool, **options: Any) -> None:
    """Write the ONNX model SPEC with fewer operators, for any runtime.

    Constants are computed, values that are the same are one, what no output needs is gone, and the
    types and sizes of all values are declared. Inputs, outputs and open sizes keep their names, and
    operators that stay are as they were. --dim fixes sizes, --set fixes inputs, which then are
    none.
    """
    from xlac.cli import written_files
    from xlac.cli.progress import current
    from xlac.memory.limit import parse
    from xlac.support.extras import needed

    refuse_tensorflow("ONNX models")
    choice = chosen(**options)
    file = output or Path(f"{choice.spec.stem}.simple.onnx")
    written_files.refuse_existing([file, file.with_name(f"{file.name}.data")], force)
    progress = current()
    progress.stage(f"reading {choice.spec.name}")
    with needed(f"'{choice.spec.name}'"):
        from xlac.integrations.simplify.model import simplify
    simplified = simplify(
        choice.spec,
        dims=choice.options.dims,
        params=choice.options.params,
        allow_outside=choice.allow_outside,
        largest=parse(largest),
    )
    progress.stage(f"writing {file.name}")
    files = simplified.write(file, progress.update)
    _report(simplified.before, simplified.after)
    written_files.listed(files)


def _report(before: Mapping[str, int], after: Mapping[str, int]) -> None:
    """The numbers of operators of each kind before and after, where they changed."""
    click.echo(f"{sum(before.values()):,} operators before, {sum(after.values()):,} after")
    for kind in sorted({*before, *after}):
        old, new = before.get(kind, 0), after.get(kind, 0)
        if old != new:
            click.echo(f"  {kind:<28}{old:>7,} {new:>7,}")
