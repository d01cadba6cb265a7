"""One program for all ranks of a mesh, to be built ahead of time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from xlac.driver import Lowered
from xlac.ir.dims import static
from xlac.model import Model
from xlac.ranks.program import RankProgram, rank_program
from xlac.spmd.mesh import Mesh, Sharding
from xlac_sdk.backend import Backend
from xlac_sdk.host.ranks.parts import DividedArray, RankParts, differing
from xlac_sdk.programs.program import Program
from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.target import Target


def built_ranks(
    model: Model, mesh: Mesh, backend: Backend, target: Target, **options: Any
) -> tuple[Lowered, RankParts]:
    """The program of rank 0, and what the other ranks have otherwise. Ranks that hold the same
    parts of all weights are lowered once; `options` as in `rank_program`. Raises UnsupportedError
    where values of weights have made programs that differ in more than their constants.
    """
    first = rank_program(model, mesh, 0, backend, target, **options)

    def program_of(rank: int) -> Program:
        return rank_program(model, mesh, rank, backend, target, **options).lowered.program

    weights = first.plan.weights.values()
    parts = rank_parts(first.lowered.program, mesh, weights, program_of, arrays_of(first))
    return first.lowered, parts


def rank_parts(
    first: Program,
    mesh: Mesh,
    shardings: Iterable[Sharding],
    program_of: Callable[[int], Program],
    arrays: Mapping[str, DividedArray],
) -> RankParts:
    """The ranks of a program, that of rank 0 being `first`. `program_of` makes that of another, for
    one of all ranks that hold the same parts of what has such shardings. Raises UnsupportedError as
    `built_ranks`.
    """
    dividing = {name for sharding in shardings for names in sharding for name in names}
    places = [
        tuple(at for name, at in mesh.place(rank).items() if name in dividing)
        for rank in range(mesh.ranks)
    ]
    number_of = {place: number for number, place in enumerate(dict.fromkeys(places))}
    programs = (first, *(program_of(places.index(place)) for place in list(number_of)[1:]))
    other = differing(programs)
    if other is not None:
        rank = places.index(list(number_of)[other])
        problem = f"the values of weights make another program of rank {rank} than of rank 0"
        hint = "divide along another axis: a part of equal integers becomes a number in the code"
        raise UnsupportedError(Diagnostic("XL7817", problem, hint=hint))
    return RankParts(programs, tuple(number_of[place] for place in places), arrays)


def arrays_of(program: RankProgram) -> dict[str, DividedArray]:
    """How inputs and outputs are divided."""
    plan = program.plan
    return {
        name: DividedArray(static(type.shape), shardings[name])
        for types, shardings in ((program.inputs, plan.inputs), (program.outputs, plan.outputs))
        for name, type in types.items()
    }
