"""The stages of a spec that trains in a pipeline, as programs to be built ahead of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xlac.driver import Lowered
from xlac.ir.dims import static
from xlac.ir.op import Array
from xlac.model import Model, SaidPipeline
from xlac.ops.tensor.leaf import param
from xlac.pipelining.plan import PhasePlan, refuse_copies
from xlac.ranks.pipeline_built import (
    BuiltStages,
    CalledFunction,
    PipelineSlots,
    built_stages,
    interface,
    stage_parts,
)
from xlac.ranks.pipeline_plans import StepModels
from xlac.ranks.stage_program import StageProgram
from xlac.spmd.mesh import Mesh, part_of
from xlac.training.graphs import TrainingGraphs
from xlac.training.micro_batches.accumulate import ACCUMULATE
from xlac.training.ranks.division import RankTraining, TrainingDivision
from xlac.training.ranks.pipeline import kinds_of_step, numbers_of, rows_of
from xlac.training.settings import settings_of_program
from xlac.training.state import LENGTH, StateTensor
from xlac.training.step import FINITE
from xlac_sdk.backend import Backend
from xlac_sdk.host.ranks.parts import DividedArray, RankParts
from xlac_sdk.programs.entries import Entries, Entry
from xlac_sdk.programs.program import Argument, Copy, Program, Role, Step
from xlac_sdk.target import Target


def built_training_pipeline(
    name: str,
    graphs: TrainingGraphs,
    shard: str | None,
    batch: Sequence[str],
    said: SaidPipeline,
    mesh: Mesh,
    backend: Backend,
    target: Target,
    **options: Any,
) -> tuple[Lowered, RankParts]:
    """The programs of all stages, called `name`. Their functions take all micro-batches of a step
    at once; `batch` are the inputs of which each micro-batch has its part. `shard` is that of the
    section `train`. The sizes of the graphs must be fixed. Raises UnsupportedError as
    `built_ranks`.
    """
    tensors = {tensor.name: tensor for tensor in graphs.state}
    among = RankTraining(mesh.sizes, tensors, shard)
    division = TrainingDivision.of(graphs.entries, among, mesh, 0, target)
    training = _PipelineTraining(graphs, division, said, mesh)
    slots = PipelineSlots(
        {}, {}, frozenset(batch), training.numbers, [metric.name for metric in graphs.metrics]
    )
    options.pop("every", None)
    made: dict[int, BuiltStages] = {}

    def programs_of(rank: int) -> list[Program]:
        if rank not in made:
            made[rank], locals = built_stages(
                training.models(),
                training.called(),
                said,
                mesh,
                rank,
                slots,
                backend,
                target,
                _check,
                **options,
            )
            weights = (axes for one in locals.values() for axes in one.plan.weights.values())
            training.shardings.extend(weights)
        stages = made[rank]
        return [training.program(name, one, stages, rank) for one in stages.stages]

    programs_of(0)
    arrays = dict(slots.arrays)
    for tensor in graphs.state:
        if tensor.name in made[0].state:
            axes = division.shardings[tensor.name]
            arrays.setdefault(tensor.name, DividedArray(static(tensor.type.shape), axes))
    shardings = [*division.shardings.values(), *training.shardings]
    parts = stage_parts(mesh, said.axis, shardings, programs_of, arrays)
    return interface(parts, made[0]), parts


def _check(kind: str, plan: PhasePlan) -> None:
    if kind.startswith(ACCUMULATE):
        refuse_copies(plan)


@dataclass(eq=False)
class _PipelineTraining:
    """The functions of a training, and the state that each stage begins with."""

    graphs: TrainingGraphs
    division: TrainingDivision
    said: SaidPipeline
    mesh: Mesh

    def __post_init__(self) -> None:
        self.shardings: list[Any] = []  # of weights that are no state
        self.numbers = numbers_of(tensor.name for tensor in self.graphs.state)

    def models(self) -> StepModels:
        """The models of all functions, divided among the ranks of a stage."""
        own = {kind: self.division.of_entry(one) for kind, one in self.graphs.entries.items()}
        kept = {tensor.name for tensor in self.graphs.state if not tensor.transient}
        first = {"evaluate": own["evaluate"]}
        return StepModels({**first, **own}, tuple(own), kept, self.numbers)

    def called(self) -> list[CalledFunction]:
        """The functions, each of as many micro-batches as a step has."""
        many = self.graphs.micro_batches
        others = [n for n in self.graphs.entries if n not in self.graphs.accumulate]
        functions = [CalledFunction("run", ["run"] * many)]
        kinds = kinds_of_step(self.graphs)
        rows = rows_of(kinds, list(self.graphs.accumulate))
        functions += [CalledFunction("step", kinds, FINITE, rows)]
        rest = [n for n in others if n not in ("run", "step")]
        return functions + [CalledFunction(n, [n] * many) for n in rest]

    def program(self, name: str, stage: StageProgram, built: BuiltStages, rank: int) -> Program:
        """The program of a stage, with entries."""
        covers = LENGTH in stage.state
        entries = [
            Entry(
                one.name,
                one.inputs,
                one.outputs,
                stage.steps[one.name],
                stage.flags.get(one.name),
                stage.state[LENGTH] if covers and one.name == "step" else None,
            )
            for one in built.functions
            if one.name != "run"
        ]
        first = tuple(self._initial(stage, rank))
        given = settings_of_program(self.graphs, stage.state)
        main = next(one for one in built.functions if one.name == "run")
        program = stage.program(name, "run", built.facts)
        return replace(
            program,
            inputs=main.inputs,
            outputs=main.outputs,
            entries=Entries(tuple(entries), first, given),
        )

    def _initial(self, stage: StageProgram, rank: int) -> list[Step]:
        """Copies of initial values to the tensors of a stage that do not begin as zeros."""
        steps: list[Step] = []
        for tensor in self.graphs.state:
            if tensor.name not in stage.state:
                continue
            sharding = self.division.shardings[tensor.name]
            data = self._part(tensor, sharding, rank)
            if not data.reshape(-1).view(np.uint8).any():
                continue
            kept = stage.state[tensor.name]
            named = replace(kept, symbol="first", role=Role.CONSTANT, offset=0)
            slot = stage.constant(named, data)
            steps.append(Copy(Argument(kept), Argument(slot), kept.size))
        return steps

    def _part(self, tensor: StateTensor, sharding: Any, rank: int) -> Array:
        whole = np.ascontiguousarray(tensor.initial())
        if not any(sharding):
            return whole
        return np.ascontiguousarray(part_of(whole, self.mesh, rank, sharding))


def batches(model: Model, batch: str) -> list[str]:
    """The inputs of which each micro-batch of a step has its part: those with an axis of the open
    size `batch`.
    """
    return [param(node).name for node in model.inputs if batch in map(str, node.shape)]
