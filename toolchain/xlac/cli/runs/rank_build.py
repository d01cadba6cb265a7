"""`xlac build --mesh`: one program for all ranks, which calls MPI."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xlac.cli.amounts import size
from xlac.cli.built import announced
from xlac.cli.models import open_model
from xlac.cli.packages import machines
from xlac_sdk.support.counts import number_of

if TYPE_CHECKING:
    from xlac.cli.commands.build import Build
    from xlac_sdk.backend import Backend

REFUSED = (
    "variant", "edited", "start", "until", "dump", "traced", "time_passes", "quantize", "static",
)  # fmt: skip
"""Options of a build that do not go with --mesh yet."""


def build_ranks(build: Build, mesh: str) -> None:
    """Writes the folder of a program that the ranks of a mesh run together."""
    from xlac.artefact import folders, writer
    from xlac.cli import trained
    from xlac.driver import specialized
    from xlac.ranks.built import built_ranks
    from xlac.ranks.pipeline_built import built_pipeline
    from xlac.spec.load import TrainedSpec
    from xlac.spmd.model import in_stages, mesh_of, parsed
    from xlac.training.ranks.built import built_training
    from xlac.training.ranks.pipeline_built import batches, built_training_pipeline
    from xlac_sdk.host.registry import find

    _check(build)
    sizes, choice = parsed(mesh), build.choice.with_options(checked=False)
    wanted, backend = build.packaging(choice), find(choice.target)
    _check_forms(backend, wanted.forms)
    graphs, training = None, None
    try:
        model = open_model(choice)
    except TrainedSpec as spec:
        trained.check(spec, backend, wanted, build)
        graphs = trained.closed_graphs(spec, (), choice.options, mesh)
        training = spec.training
        model = spec.model
    (target,) = machines(backend, choice, wanted, build.threads, build.small)
    folder = build.output or Path("out") / choice.spec.stem
    folders.written(folder.resolve())  # a folder that is not ours is refused before compiling
    source = writer.BuildSource.of(model, choice.spec, build.manifest_options(choice))
    ranks = mesh_of(model.ranks, sizes)
    options = {"pipeline": choice.pipeline, "verify_each": choice.options.verify_each}
    options |= {"wanted": choice.wanted}
    if graphs is not None and training is not None:
        said = model.ranks.pipeline if model.ranks is not None else None
        if said is not None and in_stages(model, ranks):
            lowered, parts = built_training_pipeline(
                model.name,
                graphs,
                training.shard,
                batches(model, training.batch),
                said,
                ranks,
                backend,
                target,
                **options,
            )
        else:
            lowered, parts = built_training(model.name, graphs, ranks, backend, target, **options)
    else:
        fixed = specialized(replace(model, allow_kernels=False))
        made = built_pipeline if in_stages(fixed, ranks) else built_ranks
        lowered, parts = made(fixed, ranks, backend, target, every=False, **options)
    programs = announced(model.name, backend, [lowered])
    different = number_of(len(parts.programs), "set") + " of weights"
    click.echo(f"{number_of(ranks.ranks, 'rank')}, mesh {ranks}, {different}")
    for file in writer.write(programs, backend, folder, wanted, source, ranks=parts):
        click.echo(f"  {file}  {size(file.stat().st_size)}")


def _check(build: Build) -> None:
    """Raises UsageError for options that do not go with --mesh."""
    options = build.choice.options
    given = {name: getattr(build, name) for name in REFUSED}
    given |= {
        "checked": options.checked,
        "max_memory": options.max_memory,
        "allow_kernels": options.allow_kernels,
    }
    written = {"edited": "graph", "start": "from", "traced": "trace"}
    for name, there in given.items():
        if there:
            option = written.get(name, name).replace("_", "-")
            raise click.UsageError(f"--mesh does not go with --{option}")


def _check_forms(backend: Backend, forms: tuple[str, ...]) -> None:
    """Raises UnsupportedError for a target or a form without collectives."""
    from xlac_sdk.source import Diagnostic, UnsupportedError

    if not backend.rank_forms:
        problem = f"target '{backend.name}' builds no programs that ranks run together"
        hint = "--target c writes C that calls MPI; mpirun -n N xlac run SPEC --mesh … runs here"
        raise UnsupportedError(Diagnostic("XL7806", problem, hint=hint))
    refused = [form for form in forms if form not in backend.rank_forms]
    if refused:
        problem = f"--emit {refused[0]} does not go with --mesh"
        hint = f"--emit {','.join(backend.rank_forms)}: mpicc builds the rest"
        raise UnsupportedError(Diagnostic("XL5011", problem, hint=hint))
