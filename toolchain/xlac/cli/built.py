"""What `xlac build` prints about a program and its compilation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xlac.cli.amounts import peak, size
from xlac_sdk.support.counts import number_of

if TYPE_CHECKING:
    from xlac.cli.commands.build import Build
    from xlac.driver import Lowered
    from xlac.model import Model
    from xlac.passes.pipeline import Observer, Pipeline
    from xlac_sdk.backend import Backend
    from xlac_sdk.target import Target


def announced(name: str, backend: Backend, programs: Sequence[Lowered]) -> list[Lowered]:
    """Prints the number of kernels and the memory of the first of some programs, what its variants
    add, and which hand-written kernels cannot be compared with their reference graphs here. Returns
    the programs, with that as a fact. Raises SourceError for a kernel that differs.
    """
    from xlac.driver import agreed
    from xlac.hand_written.agreement import not_compared
    from xlac.program_variants import own

    compared = [agreed(one, backend) for one in programs]
    program = compared[0].program
    for line in not_compared(program.facts):
        click.echo(f"warning: {line}", err=True)
    click.echo(
        f"{name} for {backend.name}: {number_of(len(program.kernels), 'kernel')}, {peak(program)}"
    )
    for one in own(program):
        kept = (
            f"{size(one.weights)} of weights in a layout of its own"
            if one.weights
            else "no weights"
        )
        click.echo(
            f"  variant {one.title}: {one.kernels} kernels and {kept} beside those for any size"
        )
    return compared


def loss_of(lowered: Lowered) -> dict[str, Any]:
    """The accuracy lost to 8-bit weights, printed and returned for the manifest; open sizes are at
    their `opt`.
    """
    from xlac.driver import specialized
    from xlac.passes.quantize import drawn, loss

    assert lowered.quantised is not None
    graph = specialized(lowered.model).graph
    lost = loss(graph, lowered.model.weights, lowered.quantised, drawn(graph))
    weights = len(lowered.quantised.names)
    click.echo(
        f"{weights} weights in int8: results are off by {lost.absolute:.3g} at most, "
        f"{lost.relative:.3g} of the largest"
    )
    return {
        "weights": "int8",
        "quantised": weights,
        "absolute": float(f"{lost.absolute:.3g}"),
        "relative": float(f"{lost.relative:.3g}"),
    }


def tell(trace: Any, wanted: bool) -> None:
    """Prints the rewrites of a trace on standard error, in order."""
    if wanted:
        for number, line in enumerate(trace.fired):
            click.echo(f"{number:5}  {line}", err=True)


def pass_observers(dump: Path | None, time_passes: bool) -> list[Observer]:
    """What is told of every pass: the dump, and the times on standard error."""
    from xlac.debug.dump import Dump, pass_line

    observers: list[Observer] = [Dump(dump)] if dump else []
    if time_passes:
        observers.append(lambda *event: click.echo(pass_line(*event), err=True))
    return observers


def print_graph(build: Build, model: Model, facts: Target, pipeline: Pipeline) -> None:
    """Prints the graph after the last of some passes."""
    from xlac.codegen.claims import is_kept
    from xlac.ir.text import show
    from xlac.passes.pipeline import optimize
    from xlac.passes.rewrite.trace import Trace

    trace = Trace()
    graph = optimize(
        model.graph,
        facts,
        weights=model.weights,
        precision=model.precision,
        observers=pass_observers(build.dump, build.time_passes),
        pipeline=pipeline,
        verify_each=build.choice.options.verify_each,
        trace=trace,
        is_kept=is_kept,
    )
    tell(trace, build.traced)
    click.echo(show(graph), nl=False)
