"""`xlac import`: a model of another framework becomes a spec and its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xlac.cli.choice import chosen
from xlac.cli.options import spec_options
from xlac_sdk.support.counts import number_of


@click.command(name="import")
@spec_options
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    default=None,
    help="The spec; default NAME.yaml here.",
)
@click.option("--force", is_flag=True, help="Replace existing files.")
def command(output: Path | None, force: bool, **options: Any) -> None:
    """Write the model SPEC (.onnx, .mlir, .pt2, or a spec) as readable YAML, with its tensors in a
    .safetensors file.

    What is written loads to the same graph, and builds to the same bytes. Names are kept where they
    can stand in an expression; `from` keeps what a node was called otherwise. Both files appear
    whole or not at all.
    """
    from xlac.cli import written_files
    from xlac.cli.progress import current
    from xlac.exporters.spec import write

    choice = chosen(**options)
    file = output or Path(f"{choice.spec.stem}.yaml")
    written_files.refuse_existing([file, file.with_suffix(".safetensors")], force)
    model = written_files.read(choice)
    progress = current()
    progress.stage(f"writing {file.name}")
    files = write(model, file, progress.update)
    click.echo(
        f"{model.name}: {number_of(len(model.graph.order), 'node')}, "
        f"{number_of(len(model.inputs), 'input')}, "
        f"{number_of(len(model.graph.outputs), 'output')}"
    )
    written_files.listed(files)
