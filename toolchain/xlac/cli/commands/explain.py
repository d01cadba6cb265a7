"""`xlac explain`: how each node was compiled and why; or the meaning of an error code."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xlac.cli.choice import chosen
from xlac.cli.options import (
    entry_option,
    memory_option,
    schedule_option,
    spec_options,
    target_options,
)
from xlac.cli.runs.rank import mesh_option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlac.cli.choice import Chosen
    from xlac.model import Model
    from xlac.spmd.cost import NetworkLink
    from xlac.spmd.mesh import Mesh
    from xlac.training.graphs import TrainingGraphs
    from xlac_sdk.target import Target


@click.command(name="explain")
@spec_options
@target_options
@schedule_option
@memory_option
@entry_option
@mesh_option
@click.option(
    "--link",
    default=None,
    metavar="RATE,LATENCY",
    help="Between ranks, to predict times with --mesh: 25GB/s,2us. Default: 10GB/s,5us.",
)
@click.option("--node", default=None, metavar="PATH", help="Only this node, and those inside it.")
@click.option(
    "--schedules", is_flag=True, help="How each kernel is written: tiles, vectors, threads."
)
def command(
    spec: Path,
    node: str | None,
    schedules: bool,
    mesh: str | None,
    link: str | None,
    **options: Any,
) -> None:
    """For each node of SPEC: which kernel computes it, fused with what and why, why not more, flops
    and bytes.

    With --mesh the program of one rank, after every collective with why it is there, its bytes and
    predicted time, and the memory of each rank. With places the cut comes first: which nodes are
    where, and which values cross. `xlac explain XL1234` tells more about an error.
    """
    if re.fullmatch(r"XL\d{4}", str(spec).upper()) and not spec.exists():
        from xlac import diagnostics

        click.echo(diagnostics.explain(str(spec).upper()))
        return

    from xlac.cli.models import opened
    from xlac.debug.explain import story
    from xlac.driver import lower
    from xlac_sdk.host.registry import find
    from xlac_sdk.source import Diagnostic, SourceError
    from xlac_sdk.support.choices import nearest

    choice = chosen(spec, **options, usual="step")
    model, graphs = opened(choice, mesh=mesh)
    backend = find(choice.target)
    if link is not None and mesh is None:
        raise click.UsageError("--link goes with --mesh")
    if mesh is not None:
        text = _ranks(model, graphs, choice, mesh, link, node, schedules)
    elif model.place:
        text = _stages(model, choice, node, schedules)
    else:
        facts = backend.target_for(choice.options.request)
        lowered = lower(model, facts, wanted=choice.wanted, memory=choice.memory)
        text = story.tell(lowered, model.graph, node, backend.control, schedules)
    if not text and node is not None:
        known = list(story.written(model.graph))
        some = f"it has {', '.join(known[:12])}" + (", …" if len(known) > 12 else "")
        hint = nearest(node, known, some)
        raise SourceError(Diagnostic("XL2002", f"no node '{node}' in {choice.spec}", hint=hint))
    click.echo(text)


def _ranks(
    model: Model,
    graphs: TrainingGraphs | None,
    choice: Chosen,
    given: str,
    link: str | None,
    node: str | None,
    schedules: bool,
) -> str:
    """How a model is divided among the ranks of a mesh, and the program of one; of `node` alone,
    where that is given.
    """
    from xlac.debug.explain import story
    from xlac.ranks.program import rank_program
    from xlac.ranks.story import tell_ranks
    from xlac.spmd.cost import NetworkLink
    from xlac.spmd.model import in_stages, mesh_of, parsed
    from xlac_sdk.host.registry import find

    backend, mesh = find(choice.target), mesh_of(model.ranks, parsed(given))
    facts = backend.target_for(choice.options.request)
    network = NetworkLink.parse(link) if link else NetworkLink()
    if graphs is not None:
        from xlac.training.ranks.division import TrainingDivision

        division = TrainingDivision.of_graphs(graphs, mesh, facts)
        graphs = division.of_entries(graphs)
        model = replace(division.of_entry(model), allow_kernels=model.allow_kernels)
    if in_stages(model, mesh):
        return _pipeline(model, graphs, mesh, facts, network, backend.control)
    own = rank_program(model, mesh, 0, backend, facts, wanted=choice.wanted, memory=choice.memory)
    told = story.tell(own.lowered, model.graph, node, backend.control, schedules)
    return told if node is not None else f"{tell_ranks(own, network)}\n{told}"


def _pipeline(
    model: Model,
    graphs: TrainingGraphs | None,
    mesh: Mesh,
    target: Target,
    link: NetworkLink,
    control: Mapping[str, str],
) -> str:
    """The stages of a model or of a step of training, and the programs of their phases."""
    from xlac.debug.explain import story
    from xlac.ranks.pipeline_plans import StepModels
    from xlac.ranks.pipeline_story import PipelineStory
    from xlac.spmd.run_time import Rates
    from xlac.training.ranks.pipeline import step_models

    assert model.ranks is not None and model.ranks.pipeline is not None
    step = StepModels.alone(model) if graphs is None else step_models(graphs, model)
    told = PipelineStory.of(step, model.ranks.pipeline, mesh, target, Rates(link))
    lowered = told.lowered(target)
    parts = [told.tell(lowered)]
    for phase, one in lowered:
        parts.append(f"---- phase {phase.number}, of stage {phase.stage}")
        parts.append(story.tell(one, phase.model.graph, None, control, False))
    return "\n".join(parts)


def _stages(model: Model, choice: Chosen, node: str | None, schedules: bool) -> str:
    """How a model is cut by its places, and the explanation of each stage; of `node` alone, where
    that is given.
    """
    from xlac.debug.explain import story
    from xlac.driver import Lowered, lower
    from xlac.placement.automatic import AutomaticPlaces
    from xlac.placement.places import in_stages, no_program_options
    from xlac.placement.predict import predicted
    from xlac.placement.story import tell_cut, tell_order
    from xlac_sdk.host.registry import find

    no_program_options(choice.options)

    def lowered(stage: Model, target: str) -> Lowered:
        return lower(stage, find(target).target_for(choice.options.request))

    staged = in_stages(model, choice.target, lowered)
    place = choice.options.place
    chosen = [place.chosen(model).told(place.devices)] if isinstance(place, AutomaticPlaces) else []
    overlapping = [find(stage.target).overlapping for stage in staged.model.stages]
    programs = [
        (made.target, made.program, beside)
        for made, beside in zip(staged.stages, overlapping, strict=True)
    ]
    order = tell_order(staged.model, predicted(staged.model, programs, place))
    parts = [*(f"note: {text}" for text in staged.notes), *chosen, tell_cut(staged.model), order]
    parts = [] if node is not None else parts
    for number, (stage, made) in enumerate(zip(staged.model.stages, staged.stages, strict=True)):
        control = find(stage.target).control
        text = story.tell(made, stage.model.graph, node, control, schedules)
        if text:
            parts += ["", f"stage {number + 1} on {stage.target}", text]
    return "\n".join(parts).lstrip()
