"""A model in a pipeline, compiled for one rank: each call goes through all stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlac.driver import executable, lower
from xlac.ir.dims import static
from xlac.ir.op import Array
from xlac.model import Model
from xlac.pipelining.check import check_order
from xlac.pipelining.plan import Phase, PhasePlan
from xlac.pipelining.schedule import ordered
from xlac.placement.places import refuse_places
from xlac.ranks.agreement import by_rank_0
from xlac.ranks.pipeline import ArrayPool, PipelineRun
from xlac.ranks.pipeline_plans import LocalModel, StepModels, digest_of
from xlac.ranks.program import parts_of_inputs
from xlac.runtime.compiled import Compiled
from xlac.spmd.mesh import Mesh, assembled
from xlac.spmd.run_time import Rates
from xlac_sdk.backend import Backend
from xlac_sdk.host.ranks.communicator import Communicator
from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.target import Target


def agree(here: Communicator, plans: Sequence[PhasePlan], order: Sequence[Sequence[Any]]) -> None:
    """Raises UnsupportedError on a rank whose plan is not that of rank 0."""
    digest = digest_of(plans, order)
    told = by_rank_0(here, "plan the pipeline", digest.encode)
    if told.decode() != digest:
        problem = f"rank {here.rank} has another plan than rank 0: other files, or another xlac"
        raise UnsupportedError(Diagnostic("XL7809", problem))


def check_collectives(local: LocalModel, backend: Backend, target: Target) -> None:
    """Raises UnsupportedError where the ranks of a stage exchange values, and cannot."""
    if local.plan.reasons and not target.collectives:
        problem = f"{backend.name} has no collectives, and the ranks of a stage exchange values"
        raise UnsupportedError(Diagnostic("XL7806", problem))
    if local.plan.reasons and target.device == "gpu":
        problem = "stages whose ranks exchange values have no pipeline on a GPU yet"
        hint = "a mesh of the axis of stages alone, or --target cpu"
        raise UnsupportedError(Diagnostic("XL7841", problem, hint=hint))


@dataclass(frozen=True, slots=True, eq=False)
class PipelineProgram:
    """The phases of a rank, compiled. `stage` is its place along the axis of stages, `peers` the
    ranks there.
    """

    local: LocalModel
    plan: PhasePlan
    tasks: Sequence[tuple[int, int]]
    stage: int
    peers: Sequence[int]
    phases: Mapping[Phase, Compiled]

    @staticmethod
    def of(
        model: Model,
        mesh: Mesh,
        here: Communicator,
        backend: Backend,
        target: Target,
        **options: Any,
    ) -> PipelineProgram:
        """The program of this rank; every rank calls it alike. `options` are those of
        `driver.lower`. The sizes of the model must be fixed. Raises UnsupportedError and
        SourceError as `rank_program`.
        """
        refuse_places(model, "--mesh")
        assert model.ranks is not None and model.ranks.pipeline is not None
        said = model.ranks.pipeline
        locals, plans = StepModels.alone(model).plans(said, mesh, here.rank, target, Rates())
        local, plan = locals["run"], plans["run"]
        order = ordered([plan], said.schedule).ranks
        check_order([plan], order)
        check_collectives(local, backend, target)
        agree(here, [plan], order)
        here.groups(local.groups(here.rank))
        stage, peers = mesh.along(here.rank, said.axis)
        with here.working("compile its stages"):
            phases = {
                phase: executable(lower(phase.model, target, **options), backend)
                for phase in plan.phases
                if phase.rank == stage
            }
        here.settle()
        return PipelineProgram(local, plan, order[stage], stage, peers, phases)

    def __call__(self, here: Communicator, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """This rank's parts of the outputs, which every stage has, from whole inputs."""
        given = parts_of_inputs(inputs, self.local.inputs, self.local.plan, here.rank)
        run = PipelineRun([self.plan], self.tasks, self.stage, self.peers, here, ArrayPool())

        def compute(
            _: int, phase: Phase, taken: Mapping[str, Array], into: Mapping[str, Array]
        ) -> None:
            self.phases[phase].executable.run(taken, into)

        run.run([given], compute, lambda name, array: None)  # nothing is called again
        return {n: np.array(run.value(0, number)) for n, number in self.plan.outputs.items()}

    def divided(self, name: str) -> bool:
        """Whether the ranks of a stage hold different parts of an output."""
        return any(self.local.plan.outputs[name])

    def whole_output(self, name: str, parts: Mapping[int, Array]) -> Array:
        """An output from the parts of ranks, by number."""
        sharding, shape = self.local.plan.outputs[name], static(self.local.outputs[name].shape)
        return assembled(parts, self.local.plan.mesh, sharding, shape)

    @property
    def memory(self) -> dict[str, int]:
        """Bytes that this rank needs."""
        own = [one.whole for one in self.phases.values()]
        return {
            "arena": max((one.arena_bytes for one in own), default=0),
            "state": sum(one.state_bytes for one in own),
            "weights": sum(array.nbytes for one in own for array in one.constants.values()),
        }
