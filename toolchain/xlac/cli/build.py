"""`xlac build`: a spec becomes an artefact on disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xlac.cli.options import chosen, request, spec_options, target_options

if TYPE_CHECKING:
    from xlac_sdk.program import Program


@click.command(name="build")
@spec_options
@target_options
@click.option("-o", "--output", type=click.Path(path_type=Path), default=None, help="Folder; default out/NAME.")
@click.option("--dump", type=click.Path(path_type=Path), default=None, help="Write every stage into this folder.")
@click.option("--until", default=None, metavar="PASS", help="Stop after this pass and print the graph.")
@click.option("--from", "start", default=None, metavar="PASS", help="Start at this pass.")
@click.option("--graph", "edited", type=click.Path(path_type=Path), default=None,
              help="Compile this graph text (of --until or --dump) instead of SPEC's graph.")
@click.option("--trace", "traced", is_flag=True, help="Print every rewrite that was made, with its place.")
@click.option("--list-passes", is_flag=True, help="Print the passes in order.")
def command(
    output: Path | None, dump: Path | None, until: str | None, start: str | None, edited: Path | None,
    traced: bool, list_passes: bool, **options: Any,
) -> None:  # fmt: skip
    """Compile SPEC to an artefact.

    Sizes left open are fixed at their `opt`. The folder gets the backend's files, the weights and a manifest; it
    appears whole or not at all. `--until` prints the graph, which `--graph` takes, edited if you like, to go on
    `--from` the next pass.
    """
    from xlac import artefact
    from xlac.compiler import lower
    from xlac.debug.dump import Dump
    from xlac.ir.text import show
    from xlac.passes.pipeline import PASSES, optimize
    from xlac.passes.trace import Trace
    from xlac_sdk.registry import find

    if list_passes:
        for name in PASSES:
            click.echo(name)
        return
    choice = chosen(**options)
    model = open_model(choice)
    if edited is not None:
        model = replace(model, graph=read_graph(edited, model))
    backend = find(choice.target)
    facts = backend.target(request(choice))
    observers, trace = (Dump(dump),) if dump else (), Trace()
    if until is not None:
        graph = optimize(
            model.graph, facts, weights=model.weights, precision=model.precision, observers=observers,
            until=until, start=start, trace=trace,
        )  # fmt: skip
        tell(trace, traced)
        click.echo(show(graph), nl=False)
        return
    lowered = lower(model, facts, observers=observers, start=start, trace=trace)
    tell(trace, traced)
    folder = output or Path("out") / choice.spec.stem
    program = lowered.program
    click.echo(f"{model.name} for {choice.target}: {len(program.kernels)} kernels, {peak(program)}")
    files = artefact.write(lowered, backend, folder)
    if dump:
        Dump.finish(dump, lowered, backend)
    for file in files:
        click.echo(f"  {file}  {size(file.stat().st_size)}")


def tell(trace: Any, wanted: bool) -> None:
    """Prints the rewrites of a trace on standard error, in order."""
    if wanted:
        for number, line in enumerate(trace.fired):
            click.echo(f"{number:5}  {line}", err=True)


def open_model(choice: Any) -> Any:
    """The model that the options name, its open sizes fixed at `opt` (said on standard error)."""
    from xlac.compiler import specialized
    from xlac.sources import load

    model = load(choice.spec, dims=choice.dims, params=choice.params, allow_outside=choice.allow_outside)
    if model.dims:
        fixed = ", ".join(f"{name}={symbol.opt}" for name, symbol in model.dims.items())
        click.echo(f"note: {fixed} (the sizes' opt; --dim chooses others)", err=True)
    return specialized(model)


def read_graph(file: Path, model: Any) -> Any:
    """A graph from its text, whose weights must be those of the model."""
    from xlac.ir.op import ShapeError
    from xlac.ir.text import parse
    from xlac.ops.leaf import Param
    from xlac_sdk.source import Diagnostic, SourceError

    try:
        graph = parse(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise SourceError(Diagnostic("XL1001", f"{file} is not UTF-8 text")) from None
    except (ValueError, ShapeError) as error:
        hint = "a graph as --until or --dump prints it"
        raise SourceError(Diagnostic("XL1004", f"{file}: {error}", hint=hint)) from None
    for node in graph.nodes():
        if isinstance(node.op, Param) and node.op.kind == "weight" and node.op.name not in model.weights:
            problem = f"{file}: weight '{node.op.name}' is not one of the model"
            hint = "weights that a pass derives exist only while it runs: resume before the pass 'fold'"
            raise SourceError(Diagnostic("XL3011", problem, hint=hint if "~" in node.op.name else ""))
    return graph


def peak(program: Program) -> str:
    """The exact memory that a call takes: what the plan holds, beside the caller's inputs and outputs."""
    from xlac_sdk.program import Role

    constants = sum(s.nbytes for s in program.slots if s.role is Role.CONSTANT)
    kept = f", {program.state_bytes:,} bytes of state" if program.state_bytes else ""
    return f"peak memory {program.arena_bytes + constants + program.state_bytes:,} bytes: " \
           f"{program.arena_bytes:,} arena, {constants:,} weights{kept}"  # fmt: skip


def size(nbytes: int) -> str:
    """Bytes for people."""
    value = float(nbytes)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"
