"""`xlac build`: a spec becomes an artefact on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xlac.cli.amounts import size
from xlac.cli.built import announced, loss_of, pass_observers, print_graph, tell
from xlac.cli.choice import Chosen, chosen, refuse_writing, variants
from xlac.cli.facts import facts_option
from xlac.cli.models import open_model, read_graph
from xlac.cli.options import (
    memory_option,
    pass_options,
    schedule_option,
    spec_options,
    target_options,
)
from xlac.cli.runs.rank import mesh_option

if TYPE_CHECKING:
    from xlac.driver import Lowered
    from xlac.model import Model
    from xlac.passes.pipeline import Pipeline
    from xlac.training.graphs import TrainingGraphs
    from xlac_sdk.host.package import Packaging
    from xlac_sdk.target import Target
from xlac.cli.packages import FormsOption, machines, packaging

WEIGHTS = ("embed", "incbin", "file", "mmap")  # as in xlac_sdk.host.capi
# options kept in the manifest; no paths
MANIFEST_OPTIONS = ("cpu", "triple", "dims", "params", "arch", "precision")


@click.command(name="build")
@spec_options
@target_options
@schedule_option
@pass_options
@memory_option
@facts_option
@mesh_option
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
    help="Code specialized for these values of open sizes; may be repeated.",
)
@click.option("--emit", "emitted", cls=FormsOption, default=None, metavar="FORMS")
@click.option(
    "--weights",
    "where",
    type=click.Choice(WEIGHTS),
    default=None,
    help="Weights inside the code (embed, the default; incbin), or in a file, read or mapped.",
)
@click.option("--static", is_flag=True, help="Link the program without shared libraries.")
@click.option(
    "--no-libm", "no_libm", is_flag=True, help="Call no function of C's mathematics library."
)
@click.option("--size", "small", is_flag=True, help="Prefer small code to fast code.")
@click.option(
    "--quantize",
    type=click.Choice(["int8"]),
    default=None,
    help=(
        "Weights of dots and convolutions as 8-bit integers, with a scale for each channel; "
        "prints the error."
    ),
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
def command(list_passes: bool, **options: Any) -> None:
    """Compile SPEC to an artefact.

    Sizes left open are fixed at their `opt`. Those given as a range (--dim batch=1..8), or by name
    alone (--dim batch: within the bounds that SPEC declares), are chosen by each call; --variant
    batch=1 adds code for calls of that size to the code for any. The folder gets the forms asked
    for and a manifest; it appears whole or not at all, and `xlac run` takes it like a spec. Several
    processors after --cpu (x86-64-v2,x86-64-v3) give code for each, chosen when it runs. With
    --mesh C calls MPI: one program for all ranks. `--until` prints the graph, which `--graph`
    takes, edited if you like, to go on `--from` the next pass.
    """
    if options["until"] is not None:
        refuse_writing()
    names = {field.name for field in fields(Build)} - {"choice", "threads"}
    own = {name: options.pop(name) for name in names}
    build = Build(choice=chosen(**options), threads=options["threads"], **own)
    if list_passes:
        for stage in build.choice.pipeline.stages:
            click.echo(stage.name)
    elif build.mesh is not None:
        from xlac.cli.runs.rank_build import build_ranks

        build_ranks(build, build.mesh)
    else:
        build.run()


@dataclass(frozen=True, kw_only=True)
class Build:
    """The options of a build: those that verbs share (`choice`), and its own."""

    choice: Chosen
    threads: int | None
    output: Path | None
    variant: tuple[str, ...]
    emitted: str | None
    where: str | None
    static: bool
    no_libm: bool
    small: bool
    quantize: str | None
    dump: Path | None
    until: str | None
    start: str | None
    edited: Path | None
    traced: bool
    time_passes: bool
    mesh: str | None

    def run(self) -> None:
        """Writes the folder; with `until`, prints the graph after that pass instead."""
        from xlac.artefact import folders, writer
        from xlac.cli import trained
        from xlac.debug.dump import Dump
        from xlac.memory.limit import check
        from xlac.spec.load import TrainedSpec
        from xlac.support.failures import FACT
        from xlac_sdk.host.registry import find

        pipeline = self.choice.pipeline.between(self.start, self.until)
        # artefacts do not depend on the environment
        choice = self.choice.with_options(checked=self.choice.options.checked or False)
        ranges = {name for name, size in choice.options.dims.items() if isinstance(size, str)}
        graphs = None
        try:
            model = open_model(choice, ranges)
        except TrainedSpec as spec:
            trained.check(spec, find(choice.target), self.packaging(choice), self)
            plain_graphs = trained.closed_graphs(spec, ranges, choice.options)
            graphs = trained.checked_graphs(plain_graphs, choice.options)
            model = spec.model
        if self.edited is not None:
            model = replace(model, graph=read_graph(self.edited, model))
        backend = find(choice.target)
        wanted = self.packaging(choice)
        targets = machines(backend, choice, wanted, self.threads, self.small)
        if self.until is not None:
            print_graph(self, graphs.step if graphs else model, targets[0], pipeline)
            return
        folder = self.output or Path("out") / choice.spec.stem
        folders.written(folder.resolve())  # a folder that is not ours is refused before compiling
        asked = self.manifest_options(choice)
        source = writer.BuildSource.of(model, choice.spec, asked)
        if graphs is None:
            programs = self.lowered(model, targets, pipeline)
        else:
            programs = self.learning(model.name, graphs, targets, pipeline)
        first = programs[0]
        if first.quantised is not None:
            asked["quantize"] = loss_of(first)
        if (limit := choice.memory) is not None:
            for each in programs:
                check(each.program, limit.nbytes, not wanted.weights.inside)
        programs = announced(model.name, backend, programs)
        unchecked = None
        if graphs is not None and graphs is not plain_graphs and backend.chooses_checks:
            (unchecked,) = self.learning(model.name, plain_graphs, targets[:1], pipeline, True)
        elif first.program.facts.get(FACT) and backend.chooses_checks:
            plain = open_model(choice.with_options(checked=False), ranges, quiet=True)
            (unchecked,) = self.lowered(plain, targets[:1], pipeline, quiet=True)
        files = writer.write(programs, backend, folder, wanted, source, unchecked)
        if self.dump:
            Dump.finish(self.dump, first, backend, (graphs.step if graphs else model).graph)
        for file in files:
            click.echo(f"  {file}  {size(file.stat().st_size)}")

    def packaging(self, choice: Chosen) -> Packaging:
        """The requested forms."""
        from xlac_sdk.host.registry import find

        backend = find(choice.target)
        return packaging(backend, self.emitted, self.where, self.static, not self.no_libm)

    def learning(
        self,
        name: str,
        graphs: TrainingGraphs,
        targets: Sequence[Target],
        pipeline: Pipeline,
        quiet: bool = False,
    ) -> list[Lowered]:
        """The program of a spec that trains for each target; passes that lead to the step are shown
        as requested, unless `quiet`.
        """
        from xlac.training.program import training_program

        def lower_for(target: Target, first: bool) -> Lowered:
            def lowered(graph: Model, shown: bool) -> Lowered:
                beside = target.alignment
                return self.lowered(graph, [target], pipeline, not (shown and first), beside)[0]

            return training_program(name, graphs, lowered)

        return [
            lower_for(target, number == 0 and not quiet) for number, target in enumerate(targets)
        ]

    def lowered(
        self,
        model: Model,
        targets: Sequence[Target],
        pipeline: Pipeline,
        quiet: bool = False,
        beside: int = 0,
    ) -> list[Lowered]:
        """The model's program for each target; passes for the first one are shown as requested.
        With `quiet` nothing is shown, and schedules of kernels that the model lacks are no error;
        `beside` counts further bytes.
        """
        from xlac.driver import lower
        from xlac.passes.rewrite.trace import Trace

        memory, inside = self.choice.memory, self.packaging(self.choice).weights.inside
        programs: list[Lowered] = []
        trace = Trace()
        for number, target in enumerate(targets):
            shown = number == 0 and not quiet
            one = lower(
                model,
                target,
                variants=variants(self.variant),
                observers=pass_observers(self.dump, self.time_passes) if shown else (),
                trace=trace if shown else None,
                pipeline=pipeline,
                verify_each=self.choice.options.verify_each,
                int8=self.quantize is not None,
                wanted=self.choice.wanted,
                every=not quiet,
                memory=memory and replace(memory, weights_in_memory=not inside, beside=beside),
            )
            if shown:
                tell(trace, self.traced)
            programs.append(one)
        return programs

    def manifest_options(self, choice: Chosen) -> dict[str, Any]:
        """The options to keep in the manifest."""
        asked = {key: getattr(choice.options, key) for key in MANIFEST_OPTIONS}
        asked |= {"static": self.static, "libm": not self.no_libm, "size": self.small}
        asked |= {"checked": choice.options.checked} if choice.options.checked else {}
        return asked | ({"passes": choice.options.passes} if choice.options.passes else {})
