"""`xlac train`: trains a spec on files, with checkpoints, and resumes a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xlac.cli.numbers import FiniteRange
from xlac.cli.options import memory_option, schedule_option, spec_options, target_options
from xlac.cli.runs.rank import mesh_option

if TYPE_CHECKING:
    from xlac.cli.choice import Chosen

KEPT = tuple(
    (
        "data validate columns resize accumulate epochs max_steps batch seed drop_last shuffle "
        "patience best keep checkpoint_every tensorboard merge"
    ).split()
)
"""Options that a resumed run keeps where they are not given again."""
COMPILED = tuple(
    ("target threads dim sets cpu triple arch precision checked checks max_memory schedule").split()
)
"""Those of them that affect how steps are compiled, and so the bits of results."""
USUAL = {
    "seed": 0,
    "drop_last": False,
    "shuffle": True,
    "best": "",
    "keep": 3,
    "tensorboard": False,
    "merge": True,
    "resize": False,
}


@click.command(name="train")
@partial(spec_options, required=False)
@target_options
@memory_option
@schedule_option
@click.option(
    "--data",
    multiple=True,
    metavar="FILE",
    help=".npz, .safetensors, .parquet, .csv, NAME=FILE.npy, 'shards/*.npz', "
    "or a folder with a folder of images for each class.",
)
@click.option(
    "--validate", multiple=True, metavar="FILE", help="Data to evaluate after each epoch."
)
@click.option(
    "--columns",
    multiple=True,
    metavar="INPUT=COLUMN,…",
    help="The column, or columns side by side (p0..p63), that make an input.",
)
@click.option(
    "--resize", is_flag=True, default=None, help="Crop and scale images to the input's size."
)
@click.option(
    "--from-torch",
    metavar="MODULE:FUNCTION",
    default=None,
    help=(
        "Train a PyTorch module, with the loss and optimizer that a function returns, "
        "instead of SPEC."
    ),
)
@click.option("--epochs", type=int, default=None, help="Passes over the data; default 1.")
@click.option("--max-steps", type=int, default=None, help="End after so many steps.")
@click.option("--batch", type=int, default=None, help="Rows in a batch; default the size's opt.")
@click.option(
    "--accumulate",
    type=int,
    default=None,
    help=(
        "Divide each batch into this number of micro-batches, one in memory at a time; "
        "default SPEC's."
    ),
)
@click.option("--drop-last/--keep-last", default=None, help="Drop a last batch that is smaller.")
@click.option("--shuffle/--no-shuffle", default=None, help="Shuffle the rows in each epoch.")
@click.option("--seed", type=int, default=None, help="Seed of the order of rows; default 0.")
@click.option(
    "--output",
    "-o",
    "folder",
    type=click.Path(path_type=Path),
    help="The run's folder; default runs/NAME.",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    default=None,
    metavar="RUN",
    help="Resume the run in this folder, with its SPEC and options unless others are given.",
)
@click.option(
    "--best",
    default=None,
    metavar="COLUMN:min|max",
    help="The metric by which the best epoch is kept.",
)
@click.option(
    "--patience",
    type=int,
    default=None,
    help="End after this number of epochs without improvement.",
)
@click.option("--keep", type=int, default=None, help="Number of checkpoints to keep; default 3.")
@click.option(
    "--checkpoint-every",
    type=int,
    default=None,
    metavar="STEPS",
    help="Steps between checkpoints; default one after each epoch.",
)
@click.option(
    "--tensorboard", is_flag=True, default=None, help="Also write events for TensorBoard."
)
@click.option(
    "--merge/--no-merge",
    default=None,
    help="Write weights with factors of low rank (lora) merged into them, beside the factors.",
)
@mesh_option
@click.option(
    "--timeout",
    type=FiniteRange(min=0, min_open=True),
    default=None,
    metavar="SECONDS",
    help="With --mesh: how long a process waits for another; default 600.",
)
def command(mesh: str | None, timeout: float | None, **given: Any) -> int:
    """Train SPEC, which has a section `train:`, or the module of --from-torch, on data:
    metrics.csv, checkpoints and weights go to the run's folder.

    Ctrl-C, and SIGTERM, finish the step and write a checkpoint.
    """
    from xlac.cli.choice import refuse_tensorflow

    refuse_tensorflow("specs and modules")
    if given.pop("place"):
        raise click.UsageError("--place is for models that are run: training has one target")
    if mesh is None:
        if timeout is not None:
            raise click.UsageError("--timeout goes with --mesh")
        prepared(mesh=None, **given)()
        return 0
    from xlac.cli.runs.rank import alike, ended_together, opened_rank
    from xlac_sdk.host.ranks.communicator import using

    here = opened_rank(mesh, "train", timeout)
    try:
        with using(here):
            run = alike(here, partial(prepared, mesh=mesh, quiet=here.rank > 0, **given))
            with ended_together(here):
                run()
    finally:
        here.close()
    return 0


def prepared(
    folder: Path | None,
    resume: Path | None,
    from_torch: str | None,
    mesh: str | None,
    quiet: bool = False,
    **given: Any,
) -> Callable[[], object]:
    """A run that is ready to begin; a `quiet` one leaves notes to rank 0."""
    from xlac.cli.choice import pairs
    from xlac.cli.runs.training_report import TerminalReport
    from xlac.training.data.files import absolute, column_names
    from xlac.training.loop.options import RunOptions
    from xlac.training.loop.run import TrainingLoop
    from xlac.training.loop.run_folder import RunFolder, about
    from xlac.training.loop.train import opened

    if resume is not None and folder is not None and folder != resume:
        raise click.UsageError("--resume continues in the folder that it names; leave -o out")
    unknown = given["spec"] is None and from_torch is None  # what is trained: the run says it
    before = about(resume, unknown) if resume is not None else {}
    given["spec"] = spec_of(given["spec"], from_torch, before)
    if mesh is not None and from_torch is not None:
        raise click.UsageError("--mesh does not go with --from-torch")
    place = resume or folder or usual_folder(given["spec"], from_torch)
    kept = {name: given.pop(name) for name in KEPT}
    settings = settled(kept, before)
    given |= as_compiled(before)
    if given["schedule"] is not None:
        given["schedule"] = absolute(str(given["schedule"]))
    if not settings["data"]:
        raise click.UsageError("give the training data with --data")
    if settings["epochs"] is None and settings["max_steps"] is None:
        settings["epochs"] = 1
        if not quiet:
            click.echo(f"note: 1 epoch, into {place} (--epochs, -o choose others)", err=True)
    options = RunOptions(**{name: settings[name] for name in KEPT[5:]})
    trainer = trained(from_torch, given, settings, mesh)
    columns = column_names(pairs(settings["columns"], "--columns"))
    data = opened(trainer, list(settings["data"]), columns, settings["resize"])
    validate = (
        opened(trainer, list(settings["validate"]), columns, settings["resize"])
        if settings["validate"]
        else None
    )
    report = TerminalReport(options.epochs)
    data_files = {n: [absolute(text) for text in settings[n]] for n in ("data", "validate")}
    compile_options = {name: given[name] for name in COMPILED}
    spec = {"spec": absolute(str(given["spec"]))} if given["spec"] else {}
    asked = {**spec, **compile_options, **settings, **data_files}  # from any working directory
    if not quiet:
        RunFolder(place, options.keep).check(resume is not None)
    loop = TrainingLoop(trainer, data, validate, options, place, report, asked)
    return partial(loop.run, resume is not None)


def spec_of(spec: Path | None, from_torch: str | None, before: Mapping[str, Any]) -> Path | None:
    """The spec to train: the one given, or that of the original run; none with --from-torch."""
    if spec is None and from_torch is None and before.get("spec"):
        return Path(before["spec"])
    if (spec is None) == (from_torch is None):
        why = ": a run's folder names no code" if before else ""
        raise click.UsageError(f"give SPEC, or --from-torch MODULE:FUNCTION{why}")
    return spec


def usual_folder(spec: Path | None, from_torch: str | None) -> Path:
    """The default folder of a run: runs/NAME, for NAME.yaml or the module."""
    return Path("runs") / (spec or Path((from_torch or "").partition(":")[0])).stem


def trained(
    from_torch: str | None, given: Mapping[str, Any], settings: Mapping[str, Any], mesh: str | None
) -> Any:
    """The trainer of a spec, on a rank of a mesh if one is given, or of a PyTorch module."""
    if from_torch is None:
        import xlac
        from xlac.cli.choice import chosen

        choice = chosen(**given)
        return xlac.trainer(
            choice.spec,
            accumulate=settings["accumulate"],
            tell=partial(click.echo, err=True),
            mesh=mesh,
            **training_options(choice),
        )
    from xlac.cli.from_torch import torch_trainer

    options = {name: given[name] for name in ("target", "threads")}
    options |= {"precision": given["precision"] or "default", "checked": given["checked"] or None}
    if settings["accumulate"] is not None:
        options["accumulate"] = settings["accumulate"]
    return torch_trainer(from_torch, options, {**given, **settings})


def settled(given: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a run: those given, otherwise those of the original run, otherwise
    defaults.
    """
    options: dict[str, Any] = {}
    for name, value in given.items():
        if value not in (None, ()):
            options[name] = value
        else:
            options[name] = before.get(name, USUAL.get(name, value))
    if given["epochs"] is not None or given["max_steps"] is not None:
        options |= {name: given[name] for name in ("epochs", "max_steps")}
    return options


def as_compiled(before: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the original run that affect compilation; lists become tuples, as click has
    them.
    """
    source = click.get_current_context().get_parameter_source
    usual = click.core.ParameterSource.DEFAULT
    known = {n: before[n] for n in COMPILED if n in before and source(n) is usual}
    return {n: tuple(value) if isinstance(value, list) else value for n, value in known.items()}


def training_options(choice: Chosen) -> dict[str, Any]:
    """The options for a trainer that differ from their defaults."""
    from dataclasses import fields

    from xlac.options import CompileOptions

    usual = CompileOptions()
    given = {f.name: getattr(choice.options, f.name) for f in fields(CompileOptions)}
    some = {name: value for name, value in given.items() if value != getattr(usual, name)}
    return {"target": choice.target, "allow_outside": choice.allow_outside, **some}
