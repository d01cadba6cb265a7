"""`xlac run --mesh`: one of the processes that run a model together; what `train --mesh` shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from xlac_sdk.support.counts import number_of

if TYPE_CHECKING:
    from xlac.cli.choice import Chosen
    from xlac.model import Model
    from xlac.ranks.pipeline_program import PipelineProgram
    from xlac.ranks.program import RankProgram
    from xlac.runtime.compiled import Compiled
    from xlac.spmd.mesh import Mesh
    from xlac_sdk.host.ranks.mpi import MpiRank

Result = TypeVar("Result")
Outputs = dict[str, Any]
MEETING = 5.0  # seconds within which all ranks have an error that they share


def mesh_option(function: Any) -> Any:
    """--mesh of a command."""
    text = "Divide the model among processes: sizes of the mesh's axes, data=2,model=4."
    return click.option("--mesh", default=None, metavar="AXIS=N,…", help=text)(function)


class Silent(click.exceptions.Exit):
    """Ends a rank whose mistake rank 0 reports."""


def opened_rank(mesh: str, verb: str, timeout: float | None) -> MpiRank:
    """This process as a rank, which waits for others as long as `timeout` says. Raises
    UnsupportedError where no launcher of MPI started it.
    """
    from xlac.settings import settings
    from xlac_sdk.host.ranks import mpi
    from xlac_sdk.source import Diagnostic, UnsupportedError

    if not mpi.launched():
        problem = "no launcher of MPI started this process, so there are no other ranks"
        hint = f"mpirun -n N xlac {verb} … --mesh {mesh}, N being the product of its sizes"
        raise UnsupportedError(Diagnostic("XL7806", problem, hint=hint))
    folder = Path(settings().cache or Path.home() / ".cache" / "xlac") / "mpi"
    return mpi.opened(folder, mpi.LIMIT if timeout is None else timeout)


def check_size(here: MpiRank, mesh: Mesh) -> None:
    """Raises UnsupportedError where there are not as many ranks as the mesh has."""
    from xlac_sdk.source import Diagnostic, UnsupportedError

    if here.size != mesh.ranks:
        problem = f"mesh {mesh} has {number_of(mesh.ranks, 'rank')}, and " + (
            number_of(here.size, "process was", "processes were") + " started"
        )
        hint = f"mpirun -n {mesh.ranks} xlac run … --mesh {mesh}"
        raise UnsupportedError(Diagnostic("XL7806", problem, hint=hint))


def alike(here: MpiRank, work: Callable[[], Result]) -> Result:
    """The same work on every rank. A mistake that rank 0 makes too is reported by it alone; one
    that only another rank makes ends all of them.
    """
    from xlac_sdk.source import XlacError

    problem: Exception | None = None
    try:
        with here.working("read the model and its data"):
            made = work()
    except (XlacError, click.UsageError) as error:
        problem = error
    first = here.broadcast(b"failed" if problem else b"", "rank 0 to read the model and its data")
    if problem is None and not first:
        return made
    if here.rank == 0:
        assert problem is not None
        raise problem
    if not first:
        click.echo(f"rank {here.rank}: {problem}", err=True)
        here.abort(2)
    raise Silent(0)


@contextmanager
def ended_together(here: MpiRank) -> Iterator[None]:
    """A block that every rank runs alike. An error of all of them is reported by rank 0 alone; one
    that ranks do not share ends all, with a message of the rank that has it.
    """
    from xlac.ranks.agreement import ReportedElsewhereError
    from xlac_sdk.source import XlacError

    try:
        yield
    except BaseException as error:
        if not here.meet(MEETING):
            if isinstance(error, XlacError):
                click.echo(f"rank {here.rank}: {error}", err=True)
            else:
                click.echo(f"rank {here.rank}: {type(error).__name__}: {error}", err=True)
            here.abort(error.exit_code if isinstance(error, XlacError) else 70)
        if isinstance(error, ReportedElsewhereError):
            raise Silent(0) from None
        if here.rank and isinstance(error, XlacError | click.UsageError):
            raise Silent(0) from None
        raise


def run(
    mesh: str,
    timeout: float | None,
    given: dict[str, str],
    archive: Path | None,
    seed: int,
    options: dict[str, Any],
) -> Outputs | None:
    """Runs a model among the ranks of a mesh: all outputs on rank 0, None on the others. `timeout`
    is how long ranks wait for each other in a collective, in seconds.
    """
    from xlac.cli.choice import chosen
    from xlac.cli.inputs import gather
    from xlac.cli.runs.model import opened
    from xlac.spmd.model import mesh_of, parsed
    from xlac_sdk.host.ranks.communicator import using

    _check(options)
    choice, sizes = chosen(**options), parsed(mesh)
    here = opened_rank(mesh, "run", timeout)

    def read() -> tuple[Model, Mesh, dict[str, Any]]:
        model, decided = opened(choice, given, archive)
        wanted = mesh_of(model.ranks, sizes)
        check_size(here, wanted)
        return model, wanted, gather(model, given, archive, seed, decided)

    try:
        with using(here):
            model, wanted, inputs = alike(here, read)
            with ended_together(here):
                return _together(here, choice, model, wanted, inputs)
    finally:
        here.close()


def _together(
    here: MpiRank, choice: Chosen, model: Model, mesh: Mesh, inputs: dict[str, Any]
) -> Outputs | None:
    from xlac.driver import specialized
    from xlac.ops.tensor.leaf import param
    from xlac.ranks.agreement import ReadyProgram, backend_of, rank_0_first
    from xlac.ranks.pipeline_program import PipelineProgram
    from xlac.ranks.program import memory_of, rank_program
    from xlac.runtime.specialization import solve
    from xlac.spmd.model import in_stages

    sizes = solve(model.inputs, {param(n).name: inputs[param(n).name].shape for n in model.inputs})
    fixed = specialized(replace(model, allow_kernels=False), sizes)
    backend = backend_of(here, choice.target)
    facts = backend.target_for(choice.options.request)

    if in_stages(fixed, mesh):
        options = {
            "pipeline": choice.pipeline,
            "verify_each": choice.options.verify_each,
            "wanted": choice.wanted,
            "every": False,
        }
        staged = PipelineProgram.of(fixed, mesh, here, backend, facts, **options)
        _tell(here, model.name, mesh, staged.memory)
        return _gathered(here, staged, staged(here, inputs))

    def work() -> ReadyProgram:
        made = rank_program(
            fixed,
            mesh,
            here.rank,
            backend,
            facts,
            pipeline=choice.pipeline,
            verify_each=choice.options.verify_each,
            wanted=choice.wanted,
            every=False,
        )
        return made, made.compiled(backend)

    program, compiled = rank_0_first(here, work)
    _tell(here, model.name, mesh, memory_of(program))
    return _called(here, program, compiled, inputs)


def _tell(here: MpiRank, name: str, mesh: Mesh, needs: dict[str, int]) -> None:
    if here.rank == 0:
        text = ", ".join(f"{what} {amount:,} B" for what, amount in needs.items())
        click.echo(
            f"{name} on {number_of(mesh.ranks, 'rank')}, mesh {mesh}; each: {text}", err=True
        )


def _called(
    here: MpiRank, program: RankProgram, compiled: Compiled, inputs: dict[str, Any]
) -> Outputs | None:
    """Calls the program, and gathers its outputs on rank 0."""
    results = compiled(**program.parts(inputs))
    own = results if isinstance(results, dict) else {compiled.outputs[0]: results}
    return _gathered(here, program, own)


def _gathered(
    here: MpiRank, program: RankProgram | PipelineProgram, own: Outputs
) -> Outputs | None:
    """Whole outputs on rank 0, from the parts of all."""
    whole: Outputs = {}
    for name, array in own.items():
        if not program.divided(name):
            whole[name] = array
            continue
        parts = here.gather(array)
        if parts is not None:
            whole[name] = program.whole_output(name, dict(enumerate(parts)))
    return whole if here.rank == 0 else None


def check_given(allow_long: bool, copy_weights: bool, numbers: tuple[str, ...]) -> None:
    """Raises UsageError for options of calls that do not go with --mesh."""
    given = {"allow-long": allow_long, "copy-weights": copy_weights, "number": bool(numbers)}
    for name, there in given.items():
        if there:
            raise click.UsageError(f"--mesh does not go with --{name}")


def _check(options: dict[str, Any]) -> None:
    """Raises UsageError for options that do not go with --mesh."""
    for name in ("entry", "checked", "checks", "max_memory", "allow_kernels", "place"):
        if options.get(name):
            raise click.UsageError(f"--mesh does not go with --{name.replace('_', '-')}")
