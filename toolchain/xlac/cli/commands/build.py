"""`xlac build`: a spec becomes an artefact on disk."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xlac.cli.options import (
    Chosen,
    chosen,
    pass_options,
    request,
    schedule_option,
    spec_options,
    target_options,
    variants,
)
from xlac.codegen.claims import is_kept

if TYPE_CHECKING:
    from xlac.driver import Lowered
    from xlac.passes.pipeline import Observer
    from xlac_sdk.backend import Backend
    from xlac_sdk.host.package import Packaging
    from xlac_sdk.programs.program import Program
    from xlac_sdk.target import Target

# --help imports no backend
FORMS = "c h hpp rs cmake main so exe (c); h hpp rs cmake o a so exe s ll wasm (cpu); cu ptx cubin (cuda)"
WEIGHTS = ("embed", "incbin", "file", "mmap")  # as in xlac_sdk.host.capi
# of the options, what the manifest keeps: no paths
TOLD = ("cpu", "triple", "arch", "precision", "dims", "params")


@click.command(name="build")
@spec_options
@target_options
@schedule_option
@pass_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=None,
    help="Folder; default out/NAME.",
)
@click.option(
    "--variant",
    multiple=True,
    metavar="NAME=N,…",
    help="Code of its own for calls of these sizes, of those that --dim leaves open; may be repeated.",
)
@click.option(
    "--emit", "emitted", default=None, metavar="FORMS", help=f"What to write, with commas: {FORMS}."
)
@click.option(
    "--weights",
    "where",
    type=click.Choice(WEIGHTS),
    default=None,
    help="Weights inside the code (embed, the default; incbin), in a file that is read, or one that is mapped.",
)
@click.option("--static", is_flag=True, help="Link the program without shared libraries.")
@click.option(
    "--no-libm", "no_libm", is_flag=True, help="Call no function of C's mathematics library."
)
@click.option("--size", "small", is_flag=True, help="Small code before fast code.")
@click.option(
    "--max-memory",
    "most",
    default=None,
    metavar="N",
    help="Fail, naming the tensors, when a call takes more: arena, state, weights not in the code. K, M, G.",
)
@click.option(
    "--quantize",
    type=click.Choice(["int8"]),
    default=None,
    help="Weights of dots and convolutions as 8-bit integers, a scale for each channel; tells the loss.",
)
@click.option(
    "--dump",
    type=click.Path(path_type=Path),
    default=None,
    help="Write every stage into this folder.",
)
@click.option(
    "--until", default=None, metavar="PASS", help="Stop after this pass and print the graph."
)
@click.option("--from", "start", default=None, metavar="PASS", help="Start at this pass.")
@click.option(
    "--graph",
    "edited",
    type=click.Path(path_type=Path),
    default=None,
    help="Compile this graph text (of --until or --dump) instead of SPEC's graph.",
)
@click.option(
    "--trace", "traced", is_flag=True, help="Print every rewrite that was made, with its place."
)
@click.option("--list-passes", is_flag=True, help="Print the passes in order.")
@click.option(
    "--time-passes", is_flag=True, help="Print how long each pass took, and which changed nothing."
)
def command(
    output: Path | None,
    variant: tuple[str, ...],
    emitted: str | None,
    where: str | None,
    static: bool,
    no_libm: bool,
    small: bool,
    most: str | None,
    quantize: str | None,
    dump: Path | None,
    until: str | None,
    start: str | None,
    edited: Path | None,
    traced: bool,
    list_passes: bool,
    time_passes: bool,
    **options: Any,
) -> None:
    """Compile SPEC to an artefact.

    Sizes left open are fixed at their `opt`. Those given as a range (--dim batch=1..8), or by name
    alone (--dim batch: within the bounds that SPEC declares), are chosen by each call; --variant
    batch=1 adds code for calls of that size to the code for any. The folder gets the forms asked
    for and a manifest; it appears whole or not at all, and `xlac run` takes it like a spec. Several
    processors after --cpu (x86-64-v2,x86-64-v3) give code for each, chosen when it runs. `--until`
    prints the graph, which `--graph` takes, edited if you like, to go on `--from` the next pass.
    """
    from xlac.artefact import writer
    from xlac.debug.dump import Dump, pass_line
    from xlac.driver import lower as lower_model
    from xlac.ir.text import show
    from xlac.memory import limit as memory_limit
    from xlac.passes.pipeline import optimize
    from xlac.passes.rewrite.trace import Trace
    from xlac.program_variants import own
    from xlac.support.failures import FACT
    from xlac_sdk.host.registry import find

    choice = chosen(**options)
    if list_passes:
        for stage in choice.pipeline.stages:
            click.echo(stage.name)
        return
    pipeline = choice.pipeline.between(start, until)
    # what is built does not depend on the environment
    choice = replace(choice, checked=choice.checked or False)
    ranges = {name for name, size in choice.dims.items() if isinstance(size, str)}
    model = open_model(choice, ranges)
    if edited is not None:
        model = replace(model, graph=read_graph(edited, model))
    backend = find(choice.target)
    wanted = packaging(backend, emitted, where, static, not no_libm)
    limit = memory_limit.parse(most) if most is not None else None
    targets = machines(backend, choice, wanted, options["threads"], small)
    facts = targets[0]
    observers: list[Observer] = [Dump(dump)] if dump else []
    if time_passes:
        observers.append(lambda *told: click.echo(pass_line(*told), err=True))
    trace = Trace()
    if until is not None:
        graph = optimize(
            model.graph,
            facts,
            weights=model.weights,
            precision=model.precision,
            observers=observers,
            pipeline=pipeline,
            verify_each=choice.verify_each,
            trace=trace,
            is_kept=is_kept,
        )
        tell(trace, traced)
        click.echo(show(graph), nl=False)
        return
    asked = {key: value for key, value in asdict(choice).items() if key in TOLD} | {
        "static": static,
        "libm": not no_libm,
        "size": small,
    }
    asked |= {"checked": choice.checked} if choice.checked else {}
    asked |= {"passes": choice.passes} if choice.passes else {}
    source = writer.Source.of(model, choice.spec, asked)
    fixed, int8 = variants(variant), quantize is not None
    lower = partial(
        lower_model,
        variants=fixed,
        pipeline=pipeline,
        verify_each=choice.verify_each,
        int8=int8,
        wanted=choice.wanted,
    )
    lowered = lower(model, facts, observers=observers, trace=trace)
    tell(trace, traced)
    programs = [lowered, *(lower(model, other) for other in targets[1:])]
    if lowered.quantised is not None:
        asked["quantize"] = loss_of(lowered)
    if limit is not None:
        for each in programs:
            memory_limit.check(each.program, limit, not wanted.weights.inside)
    folder = output or Path("out") / choice.spec.stem
    program = lowered.program
    click.echo(f"{model.name} for {choice.target}: {len(program.kernels)} kernels, {peak(program)}")
    for one in own(program):
        kept = (
            f"{size(one.weights)} of weights in a layout of its own"
            if one.weights
            else "no weights"
        )
        click.echo(
            f"  variant {one.title}: {one.kernels} kernels and {kept} beside those for any size"
        )
    unchecked = None
    if lowered.program.facts.get(FACT) and backend.chooses_checks:
        open_unchecked = open_model(replace(choice, checked=False), ranges, quiet=True)
        unchecked = lower(open_unchecked, facts, every=False)
    files = writer.write(programs, backend, folder, wanted, source, unchecked)
    if dump:
        Dump.finish(dump, lowered, backend)
    for file in files:
        click.echo(f"  {file}  {size(file.stat().st_size)}")


def loss_of(lowered: Lowered) -> dict[str, Any]:
    """What 8-bit weights cost in accuracy, said on standard output and for the manifest; open sizes
    are at their `opt`.
    """
    from xlac.driver import specialized
    from xlac.passes.quantize import drawn, loss

    assert lowered.quantised is not None
    graph = specialized(lowered.model).graph
    found = loss(graph, lowered.model.weights, lowered.quantised, drawn(graph))
    weights = len(lowered.quantised.names)
    click.echo(
        f"{weights} weights in int8: results are off by {found.absolute:.3g} at most, {found.relative:.3g} of the largest"
    )
    return {
        "weights": "int8", "quantised": weights, "absolute": float(f"{found.absolute:.3g}"), "relative": float(f"{found.relative:.3g}"),
    }  # fmt: skip


def packaging(
    backend: Backend, emitted: str | None, where: str | None, static: bool, libm: bool
) -> Packaging:
    """What the options ask of a backend. Raises for a form, or a place of the weights, that it does
    not have.
    """
    from xlac_sdk.host.package import Packaging, forms, offered
    from xlac_sdk.programs.constants import Weights
    from xlac_sdk.source import Diagnostic, UnsupportedError

    names = forms(backend, emitted) if emitted is not None else backend.usual
    if not names and (where or static or not libm):
        problem = "--weights, --static and --no-libm choose how packages are written"
        raise UnsupportedError(Diagnostic("XL5011", problem, hint=offered(backend)))
    return Packaging(names, Weights(where or "embed"), static, libm)


def machines(
    backend: Backend, choice: Chosen, wanted: Packaging, threads: int | None, small: bool
) -> list[Target]:
    """The processors to compile for, as `--cpu` lists them. What is written ahead of time runs on
    its caller's thread.
    """
    from xlac_sdk.source import Diagnostic, SourceError

    cpus = choice.cpu.split(",")
    if not wanted.forms and len(cpus) > 1:
        problem = f"target '{choice.target}' compiles for one processor at a time"
        raise SourceError(Diagnostic("XL5101", problem, hint=f"--cpu {cpus[0]}"))
    if wanted.forms:
        if threads is not None and threads > 1:
            problem = "what is compiled ahead of time runs on its caller's thread"
            raise SourceError(Diagnostic("XL5005", problem, hint="leave --threads out"))
        choice = replace(choice, threads=1)
    asked = [request(replace(choice, cpu=cpu.strip())) for cpu in cpus]
    return [backend.target(replace(one, size=small, ahead=True)) for one in asked]


def tell(trace: Any, wanted: bool) -> None:
    """Prints the rewrites of a trace on standard error, in order."""
    if wanted:
        for number, line in enumerate(trace.fired):
            click.echo(f"{number:5}  {line}", err=True)


def open_model(choice: Any, ranges: Container[str] = (), quiet: bool = False) -> Any:
    """The model that the options name, its open sizes but `ranges` fixed at `opt` (said on standard
    error).
    """
    from xlac.driver import specialized, unfixed
    from xlac.frontends.loader import load
    from xlac.passes.checks.insert import watched
    from xlac.support.failures import kinds

    model = load(
        choice.spec,
        dims=choice.dims,
        params=choice.params,
        allow_outside=choice.allow_outside,
        precision=choice.precision,
    )
    kept = {name: symbol for name, symbol in model.dims.items() if name in ranges}
    closed = {name: symbol for name, symbol in model.dims.items() if name not in kept}
    if closed and not quiet:
        fixed = ", ".join(f"{name}={symbol.opt}" for name, symbol in closed.items())
        click.echo(f"note: {fixed} (the sizes' opt; --dim chooses others)", err=True)
    model = replace(specialized(replace(model, dims=closed)), dims=kept)
    return watched(unfixed(model) if kept else model, kinds(choice.checked))


def read_graph(file: Path, model: Any) -> Any:
    """A graph from its text, whose weights must be those of the model."""
    from xlac.ir.op import ShapeError
    from xlac.ir.text import parse
    from xlac.ops.tensor.leaf import Param
    from xlac_sdk.source import Diagnostic, SourceError

    try:
        from xlac_sdk.support.files import regular

        graph = parse(regular(file).read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise SourceError(Diagnostic("XL1001", f"{file} is not UTF-8 text")) from None
    except (ValueError, ShapeError) as error:
        hint = "a graph as --until or --dump prints it"
        raise SourceError(Diagnostic("XL1004", f"{file}: {error}", hint=hint)) from None
    for node in graph.nodes():
        if (
            isinstance(node.op, Param)
            and node.op.kind == "weight"
            and node.op.name not in model.weights
        ):
            problem = f"{file}: weight '{node.op.name}' is not one of the model"
            hint = "weights that a pass derives exist only while it runs: resume before the pass 'fold'"
            raise SourceError(
                Diagnostic("XL3011", problem, hint=hint if "~" in node.op.name else "")
            )
    return graph


def peak(program: Program) -> str:
    """The exact memory that a call takes: what the plan holds, beside the caller's inputs and
    outputs.
    """
    from xlac_sdk.programs.program import Role

    constants = sum(s.nbytes for s in program.slots if s.role is Role.CONSTANT)
    return memory(program.arena_bytes, constants, program.state_bytes)


def memory(arena: int, weights: int, state: int) -> str:
    """The parts of the memory that a call takes, and their sum."""
    kept = f", {state:,} bytes of state" if state else ""
    return (
        f"peak memory {arena + weights + state:,} bytes: {arena:,} arena, {weights:,} weights{kept}"
    )


def size(nbytes: int) -> str:
    """Bytes for people."""
    value = float(nbytes)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"
