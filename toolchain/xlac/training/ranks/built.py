"""The program of a spec that trains, for all ranks of a mesh, to be built ahead of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from xlac.driver import Lowered
from xlac.ir.dims import static
from xlac.ir.op import Array
from xlac.model import Model
from xlac.ranks.built import arrays_of, rank_parts
from xlac.ranks.program import RankProgram, rank_program
from xlac.spmd.mesh import Mesh, Sharding, part_of
from xlac.training.graphs import TrainingGraphs
from xlac.training.program import training_program
from xlac.training.ranks.division import TrainingDivision
from xlac.training.state import StateTensor
from xlac_sdk.backend import Backend
from xlac_sdk.host.ranks.parts import DividedArray, RankParts
from xlac_sdk.programs.program import Program, exchanges
from xlac_sdk.programs.rewrite import with_leaves
from xlac_sdk.programs.steps import CollectiveDone, CollectiveStart, Step
from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.target import Target


def built_training(
    name: str, graphs: TrainingGraphs, mesh: Mesh, backend: Backend, target: Target, **options: Any
) -> tuple[Lowered, RankParts]:
    """The program of rank 0, called `name`, with entries as `training_program`, and what the other
    ranks have otherwise: each begins with its parts of the state. `options` as in `rank_program`.
    The sizes of the graphs must be fixed. Raises UnsupportedError where entries divide an input
    otherwise, and as `built_ranks`.
    """
    tensors = {tensor.name: tensor for tensor in graphs.state}
    division = TrainingDivision.of_graphs(graphs, mesh, target)

    def of_rank(rank: int) -> _RankEntries:
        return _RankEntries(division, rank, backend, target, options).of(name, graphs)

    first = of_rank(0)
    shardings = [*division.shardings.values(), *first.weights()]
    parts = rank_parts(
        first.whole.program,
        mesh,
        shardings,
        lambda rank: of_rank(rank).whole.program,
        first.arrays(tensors),
    )
    return first.whole, parts


@dataclass
class _RankEntries:
    """The entries of one rank, as they are lowered."""

    division: TrainingDivision
    rank: int
    backend: Backend
    target: Target
    options: Mapping[str, Any]
    entries: list[RankProgram] = field(init=False, default_factory=list)
    exchanges: int = field(init=False, default=0)  # of the entries so far
    whole: Lowered = field(init=False)

    def of(self, name: str, graphs: TrainingGraphs) -> _RankEntries:
        """Lowers the entries of a training."""
        state = tuple(map(self._own, graphs.state))
        own = replace(graphs, state=state)
        self.whole = training_program(name, own, lambda model, _: self._lowered(model))
        return self

    def weights(self) -> list[Sharding]:
        """How the weights are divided that are no state."""
        return [axes for entry in self.entries for axes in entry.plan.weights.values()]

    def arrays(self, tensors: Mapping[str, StateTensor]) -> dict[str, DividedArray]:
        """How the inputs and outputs of all entries are divided, and the state."""
        program = self.whole.program
        entries = program.entries.entries if program.entries else ()
        slots = [*program.inputs, *program.outputs]
        slots += [slot for entry in entries for slot in (*entry.inputs, *entry.outputs)]
        taken = {slot.name for slot in slots}
        found: dict[str, DividedArray] = {}
        for entry in self.entries:
            for name, array in arrays_of(entry).items():
                if name in taken and found.setdefault(name, array) != array:
                    problem = f"the step, the evaluation and the model divide '{name}' otherwise"
                    hint = "say how it is divided in the section shard"
                    raise UnsupportedError(Diagnostic("XL7812", problem, hint=hint))
        for name, tensor in tensors.items():
            axes = self.division.shardings[name]
            sums = self.division.partial.get(name, ())
            found.setdefault(name, DividedArray(static(tensor.type.shape), axes, sums))
        return found

    def _own(self, tensor: StateTensor) -> StateTensor:
        """A tensor of the state that begins as this rank's part of it."""
        sharding = self.division.shardings[tensor.name]
        return replace(tensor, initial=partial(self._part, tensor, sharding))

    def _part(self, tensor: StateTensor, sharding: Sharding) -> Array:
        whole = np.asarray(tensor.initial())
        if not any(sharding):
            return whole
        return np.ascontiguousarray(part_of(whole, self.division.mesh, self.rank, sharding))

    def _lowered(self, model: Model) -> Lowered:
        """An entry, whose collectives have numbers of their own among those of all."""
        made = rank_program(
            self.division.of_entry(model),
            self.division.mesh,
            self.rank,
            self.backend,
            self.target,
            idle_axes=True,
            every=False,
            **self.options,
        )
        self.entries.append(made)
        program = _numbered(made.lowered.program, self.exchanges)
        numbers = (step.exchange.number for step in exchanges(program.every_step))
        self.exchanges = max((number + 1 for number in numbers), default=self.exchanges)
        return replace(made.lowered, program=program)


def _numbered(program: Program, first: int) -> Program:
    """The program with its collectives numbered from `first` on."""

    def visit(step: Step) -> tuple[Step, ...]:
        if isinstance(step, CollectiveStart | CollectiveDone):
            exchange = replace(step.exchange, number=step.exchange.number + first)
            return (replace(step, exchange=exchange),)
        return (step,)

    return with_leaves(program, visit)
