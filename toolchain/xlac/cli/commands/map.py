"""`xlac map`: a model over the rows of files, by many processes."""

from __future__ import annotations

from pathlib import Path

import click

ENGINES = ("processes", "dask", "ray")


@click.command(name="map")
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--input",
    "-i",
    "files",
    multiple=True,
    required=True,
    metavar="FILES",
    help="Rows of the inputs: a file or pattern of .npz, .safetensors, .csv or .parquet, or "
    "NAME=FILE.npy.",
)
@click.option(
    "-o", "out", required=True, type=click.Path(path_type=Path), help="The folder of the parts."
)
@click.option(
    "--batch",
    type=click.IntRange(1),
    default=None,
    metavar="N",
    help="Rows of a part. Default: those of the model, or 64.",
)
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="processes",
    show_default=True,
    help="What runs the parts: processes of this machine, or workers of Dask or Ray.",
)
@click.option("--workers", type=click.IntRange(1, 1024), default=2, show_default=True, metavar="N")
@click.option(
    "--scheduler", default=None, metavar="ADDRESS", help="Of Dask or Ray, where one runs."
)
def command(
    model: Path,
    files: tuple[str, ...],
    out: Path,
    batch: int | None,
    engine: str,
    workers: int,
    scheduler: str | None,
) -> None:
    """Computes MODEL, an artefact or a spec, over the rows of files: a file for each batch of rows.

    Parts are named by their rows and appear whole, so the same command goes on where one ended, and
    a part that two workers compute is there once. Workers see the same folders.
    """
    from xlac.artefact.loader import load
    from xlac.fleet.engines import by_dask, by_processes, by_ray
    from xlac.fleet.job import MapJob, all_parts, begin, fixed_batch, tidy
    from xlac_sdk.source import Diagnostic, SourceError

    if scheduler is not None and engine == "processes":
        raise click.UsageError("--scheduler goes with --engine dask and ray")
    out.mkdir(parents=True, exist_ok=True)
    model = _artefact(model, out)
    fixed = fixed_batch(load(model))
    if fixed is not None and batch is not None and batch > fixed:
        problem = f"{model} takes {fixed} rows in a call, and --batch is {batch}"
        hint = "build it with an open size: xlac build --dim NAME"
        raise SourceError(Diagnostic("XL7815", problem, hint=hint))
    job = MapJob.of(model, files, out, batch or fixed or 64)
    left = begin(job)
    total = len(all_parts(job))
    if len(left) < total:
        click.echo(f"{total - len(left)} of {total} parts are there", err=True)
    computed: set[tuple[int, int]] = set()
    if left and engine == "processes":
        by_processes(job, left, workers, computed.add)
    elif left:
        by_cluster = by_ray if engine == "ray" else by_dask
        by_cluster(job, left, workers, computed.add, scheduler)
    tidy(job)
    click.echo(f"{total} parts in {out}, {len(left)} computed now")


def _artefact(model: Path, out: Path) -> Path:
    """The artefact of a model, with open sizes: the folder given, or one built inside of `out`.
    Raises SourceError where that was built of another spec, or of other weights.
    """
    from xlac.artefact.writer import weights_hash
    from xlac.cli.commands import build
    from xlac.frontends.loader import load
    from xlac_sdk.host import manifest
    from xlac_sdk.source import Diagnostic, SourceError

    if (model / manifest.NAME).is_file():
        return model
    source, folder = load(model), out / "model"
    if not (folder / manifest.NAME).is_file():
        options = [part for name in source.dims for part in ("--dim", name)]
        build.command.main([str(model), "-o", str(folder), *options], standalone_mode=False)
        return folder
    made = manifest.read(folder).provenance
    if (made.spec, made.weights) != (manifest.file_hash(model), weights_hash(source.weights)):
        problem = f"{folder} was built of another spec than {model} is now, or of other weights"
        raise SourceError(Diagnostic("XL7815", problem, hint="give another folder to -o"))
    return folder
