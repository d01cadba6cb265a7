"""`xlac plan`: the meshes that divide a model best, found on paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xlac.cli.choice import chosen
from xlac.cli.options import entry_option, spec_options, target_options


@click.command(name="plan")
@spec_options
@target_options
@entry_option
@click.option(
    "--ranks",
    type=click.IntRange(1, 1 << 20),
    required=True,
    metavar="N",
    help="The number of processes to plan for.",
)
@click.option(
    "--link",
    default=None,
    metavar="RATE,LATENCY",
    help="Between ranks: 25GB/s,2us. Default: 10GB/s,5us.",
)
@click.option(
    "--device",
    default=None,
    metavar="FLOPS,RATE",
    help="What a rank computes with: 300Tflop/s,2TB/s. Default: 100Gflop/s,20GB/s.",
)
@click.option(
    "--max-memory",
    "limit",
    default=None,
    metavar="N",
    help="Most memory of a rank: arena, state and weights. K, M, G.",
)
@click.option(
    "--count",
    type=click.IntRange(1, 100),
    default=5,
    show_default=True,
    help="How many plans to compile and print.",
)
def command(
    spec: Path,
    ranks: int,
    link: str | None,
    device: str | None,
    limit: str | None,
    count: int,
    **options: Any,
) -> None:
    """Searches how to divide SPEC among N ranks: meshes and weights, by predicted time of a step.

    Prints the best plans with the exact memory of a rank, and the sections mesh and shard of the
    first. No other process, and no MPI: docs/DISTRIBUTED.md says what is predicted.
    """
    from xlac.cli.models import model_of_mesh, opened
    from xlac.memory.limit import parse
    from xlac.ranks.pipeline_plans import StepModels
    from xlac.ranks.plans import StepPrediction, lowered_plans, tell_plans
    from xlac.spmd.cost import NetworkLink, RankDevice
    from xlac.spmd.search import PlanSearch
    from xlac.training.ranks.pipeline import step_models
    from xlac_sdk.host.registry import find

    choice = chosen(spec, **options, usual="step")
    model, graphs = opened(choice)
    backend = find(choice.target)
    search = PlanSearch(
        backend.target_for(choice.options.request),
        NetworkLink.parse(link) if link else NetworkLink(),
        RankDevice.parse(device) if device else RankDevice(),
        parse(limit) if limit else None,
        model_of_mesh(choice),
    )
    step = StepModels.alone(model) if graphs is None else step_models(graphs, model)
    times = StepPrediction(search, step)
    plans = lowered_plans(times, model, ranks, count, backend)
    click.echo(tell_plans(times, ranks, plans))
