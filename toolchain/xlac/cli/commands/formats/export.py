"""`xlac export`: writes a model in another format."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from xlac.cli.choice import chosen
from xlac.cli.options import spec_options

SUFFIXES = {"onnx": ".onnx", "stablehlo": ".mlir"}


@click.command(name="export")
@spec_options
@click.option("--to", "form", type=click.Choice(list(SUFFIXES)), required=True, help="The format.")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    default=None,
    help="The file; default NAME.onnx or NAME.mlir here.",
)
@click.option("--force", is_flag=True, help="Replace existing files.")
def command(form: str, output: Path | None, force: bool, **options: Any) -> None:
    """Write SPEC as ONNX (ai.onnx, operator set 21) or as StableHLO (text).

    Sizes stay open, with their bounds, but those that --dim fixes. State becomes inputs and
    outputs. What the format cannot say is listed, node by node; places and shards are left out,
    with a warning.
    """
    from xlac.cli import written_files
    from xlac.cli.placing import told
    from xlac.cli.progress import current
    from xlac.exporters.left_out import LeftOutWarning

    choice = chosen(**options)
    file = output or Path(choice.spec.with_suffix(SUFFIXES[form]).name)
    beside = [file.with_name(f"{file.name}.data")] if form == "onnx" else []
    written_files.refuse_existing([file, *beside], force)
    model = written_files.read(choice)
    progress = current()
    progress.stage(f"writing {file.name}")
    with told(LeftOutWarning):
        writer = import_module(f"xlac.exporters.{form}")
        files: list[Path] = writer.write(model, file, progress.update)
    written_files.listed(files)
