"""`xlac run`: compiles a spec, or loads an artefact, and runs it once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xlac.cli.choice import chosen, pairs
from xlac.cli.inputs import brought, check_outputs, drawn, filled, gather
from xlac.cli.measuring import calling
from xlac.cli.numbers import FiniteRange
from xlac.cli.options import (
    entry_option,
    input_options,
    pass_options,
    running,
    schedule_option,
    spec_options,
    target_options,
)
from xlac.cli.placing import told_placement
from xlac.cli.runs.model import opened
from xlac.cli.runs.rank import mesh_option
from xlac.cli.runs.results import check_expected, finished

if TYPE_CHECKING:
    from xlac.cache.compilations import CompilationEntry
    from xlac.cli.choice import Chosen
    from xlac.cli.entry_run import RunRequest
    from xlac.model import Model
    from xlac.runtime.compiled import Compiled
    from xlac.runtime.specialization import Specializing

# a program, its inputs, its target and its number of threads
Ready = tuple["Compiled", dict[str, Any], str, int]


@click.command(name="run")
@spec_options
@target_options
@schedule_option
@pass_options
@running
@input_options
@click.option(
    "--output", "-o", "wanted", multiple=True, metavar="NAME=@FILE", help="Write an output as .npy."
)
@click.option(
    "--outputs", "written", type=click.Path(path_type=Path), help="Write all outputs as one .npz."
)
@click.option(
    "--expect",
    "expected",
    multiple=True,
    metavar="[NAME=]@FILE",
    help="Compare with a .npy, or an .npz.",
)
@click.option(
    "--rtol",
    type=FiniteRange(0),
    default=1e-4,
    show_default=True,
    help="Relative tolerance of --expect.",
)
@click.option(
    "--atol",
    type=FiniteRange(0),
    default=1e-5,
    show_default=True,
    help="Absolute tolerance of --expect.",
)
@entry_option
@mesh_option
@click.option(
    "--number",
    "numbers",
    multiple=True,
    metavar="NAME=N",
    help="Set lr, or the length of the run, before --entry step.",
)
def command(
    given: tuple[str, ...],
    archive: Path | None,
    wanted: tuple[str, ...],
    written: Path | None,
    expected: tuple[str, ...],
    rtol: float,
    atol: float,
    copy_weights: bool,
    seed: int,
    timeout: float | None,
    allow_long: bool,
    numbers: tuple[str, ...],
    mesh: str | None,
    **options: Any,
) -> int:
    """Compile SPEC and run it; a folder that xlac build made is run as it is. Inputs that are not
    given are random. --entry step takes one step of what learns, from its first weights. With
    --mesh, --timeout limits how long a process waits for another.

    Exit code 1 says that an output differs from what --expect gave.
    """
    from xlac.cli import entry_run
    from xlac.cli.choice import is_artefact
    from xlac.cli.progress import current

    arrays = pairs(given, "--input")
    check_expected(expected)
    if mesh is not None and not is_artefact(options["spec"]):
        from xlac.cli.runs import rank

        rank.check_given(allow_long, copy_weights, numbers)
        outputs = rank.run(mesh, timeout, arrays, archive, seed, options)
        return finished(outputs, wanted, written, expected, rtol, atol)
    run: Any = artefact_run if is_artefact(options["spec"]) else spec_run
    if options["entry"] not in (None, "run"):
        of_artefact = is_artefact(options["spec"])
        of_one = entry_run.artefact_entry if of_artefact else entry_run.spec_entry
        run = partial(of_one, numbers)
    elif numbers:
        raise click.UsageError("--number goes with --entry step")
    files = pairs(wanted, "--output")
    compared = [name for name, equals, _ in (text.rpartition("=") for text in expected) if equals]
    program, inputs, target, threads = run(
        entry_run.RunRequest(arrays, archive, seed, (*files, *compared), copy_weights), options
    )
    current().stage("running")
    with calling(program.program, target, threads, timeout, allow_long):
        results = program(**inputs)
    outputs = results if isinstance(results, dict) else {program.outputs[0]: results}
    if options["entry"] not in (None, "run"):
        outputs = entry_run.learned(outputs)
    return finished(outputs, wanted, written, expected, rtol, atol)


def spec_run(request: RunRequest, options: dict[str, Any]) -> Ready:
    """Compiles a spec, or loads it from the cache."""
    from xlac.api import load
    from xlac.cache.compilations import entry
    from xlac.cli.amounts import peak

    choice = chosen(**options)
    place = None
    if (
        not choice.allow_outside and not choice.options.verify_each and not choice.spec.is_dir()
    ):  # cached programs may not have been verified; folders are not in the cache
        place = entry(choice.spec, choice.target, choice.options)
    program = load(place, request.copy_weights)
    if program is None:
        program, inputs = _compiled(choice, place, request)
    else:
        check_outputs(request.outputs, program.outputs)
        slots = program.program.inputs
        arrays = brought([slot.name for slot in slots], request.arrays, request.archive)
        inputs = filled(
            arrays,
            {slot.name: (slot.dtype, slot.extents({})) for slot in slots},
            request.arrays,
            request.seed,
        )
    on = " and ".join(dict.fromkeys(program.program.facts.get("stages", [choice.target])))
    click.echo(f"{program.program.name} on {on}: {peak(program.program)}", err=True)
    return program, inputs, choice.target, choice.threads


def _compiled(
    choice: Chosen, place: CompilationEntry | None, request: RunRequest
) -> tuple[Compiled, dict[str, Any]]:
    """A spec's program for the user's inputs, and all inputs; stored in `place`, if given."""
    from xlac.api import keep
    from xlac.runtime.specialization import Specializing
    from xlac.support.dependencies import copying, note, noted, steady

    with noted() as files, copying(request.copy_weights), steady():
        note(choice.spec)
        model, decided = opened(choice, request.arrays, request.archive)
        check_outputs(request.outputs, model.graph.outputs)
        inputs = gather(model, request.arrays, request.archive, request.seed, decided)
        with told_placement():
            program = compiled(choice, model)
    if isinstance(program, Specializing):
        with told_placement():
            return program.specialize(inputs), inputs
    if not decided:
        keep(place, program, files)
    return program, inputs


def compiled(choice: Chosen, model: Model) -> Compiled | Specializing:
    """A model compiled as the options say."""
    from xlac.api import compile

    return compile(
        model,
        choice.target,
        threads=choice.threads,
        cpu=choice.options.cpu,
        triple=choice.options.triple,
        arch=choice.options.arch,
        checked=choice.options.checked,
        schedules=choice.options.schedules,
        passes=choice.options.passes,
        verify_each=choice.options.verify_each,
        allow_kernels=choice.options.allow_kernels,
        place=choice.options.place,
    )


def artefact_run(request: RunRequest, options: dict[str, Any]) -> Ready:
    """Loads an artefact, without importing the compiler."""
    from xlac.artefact.loader import load
    from xlac.cli.amounts import memory
    from xlac.cli.choice import artefact

    program = load(artefact(options["spec"]), copy_weights=request.copy_weights)
    check_outputs(request.outputs, program.outputs)
    needs = program.manifest.memory
    inputs = drawn(program.program, request.arrays, request.archive, request.seed)
    memory_text = memory(needs.arena, needs.weights, needs.state)
    click.echo(f"{program.manifest.name} on {program.manifest.target}: {memory_text}", err=True)
    return program, inputs, program.manifest.target, 1
