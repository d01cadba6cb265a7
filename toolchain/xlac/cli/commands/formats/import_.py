"""`xlac import`: a model of another framework becomes a spec and its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xlac.cli.choice import chosen
from xlac.cli.options import spec_options


@click.command(name="import")
@spec_options
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    default=None,
    help="The spec; default NAME.yaml here.",
)
@click.option("--force", is_flag=True, help="Replace files that are there.")
def command(output: Path | None, force: bool, **options: Any) -> None:
    """Write the model SPEC (.onnx, .mlir, .pt2, or a spec) as readable YAML, with its tensors in a
    .safetensors file.

    What is written loads to the same graph, and builds to the same bytes. Names are kept where they
    can stand in an expression; `from` keeps what a node was called otherwise. Both files appear
    whole or not at all.
    """
    from xlac.cli.amounts import size
    from xlac.cli.progress import current
    from xlac.exporters.spec import write
    from xlac.frontends.loader import load

    choice = chosen(**options)
    file = output or Path(f"{choice.spec.stem}.yaml")
    refuse_existing([file, file.with_suffix(".safetensors")], force)
    progress = current()
    progress.stage(f"reading {choice.spec.name}")
    model = load(
        choice.spec,
        dims=choice.options.dims,
        params=choice.options.params,
        allow_outside=choice.allow_outside,
    )
    progress.stage(f"writing {file.name}")
    files = write(model, file, progress.update)
    click.echo(
        f"{model.name}: {len(model.graph.order):,} nodes, {len(model.inputs)} inputs, "
        f"{len(model.graph.outputs)} outputs"
    )
    for made in files:
        click.echo(f"  {made}  {size(made.stat().st_size)}")


def refuse_existing(files: list[Path], force: bool) -> None:
    """Raises SourceError for existing files, unless `force`."""
    from xlac_sdk.source import Diagnostic, SourceError

    there = [file for file in files if file.exists()]
    if any(file.is_dir() for file in there) or (there and not force):
        names = " and ".join(f"'{file}'" for file in there)
        raise SourceError(
            Diagnostic(
                "XL3016",
                f"{names} {'are' if len(there) > 1 else 'is'} there already",
                hint="choose another name with -o, or replace files with --force",
            )
        )
