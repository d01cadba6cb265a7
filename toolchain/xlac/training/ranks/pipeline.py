"""The programs of training in a pipeline: each rank has the phases of its stages, their weights and
what the optimizer keeps of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xlac.driver import executable, lower, specialized
from xlac.frontends.loader import load
from xlac.ir.dims import static
from xlac.ir.op import Array
from xlac.model import Model, SaidPipeline
from xlac.pipelining.balance import stages_of
from xlac.pipelining.check import check_order
from xlac.pipelining.phases import holders, phases_of
from xlac.pipelining.plan import Phase, PhasePlan, refuse_copies
from xlac.pipelining.schedule import PipelineOrder, ordered
from xlac.pipelining.stages import StageOfPath
from xlac.pipelining.sums import sums_at_home
from xlac.ranks.pipeline import ArrayPool, PipelineRun
from xlac.ranks.pipeline_plans import LocalModel, StepModels, without_state
from xlac.ranks.pipeline_program import agree, check_collectives
from xlac.ranks.program import parts_of_inputs
from xlac.runtime.compiled import Compiled
from xlac.spmd.run_time import Rates
from xlac.training.graphs import TrainingGraphs
from xlac.training.micro_batches.accumulate import ACCUMULATE, NUMBER
from xlac.training.ranks.division import RankTraining
from xlac.training.ranks.programs import RankTrainingPrograms
from xlac.training.shared_state import TrainingPrograms
from xlac_sdk.host import stopping
from xlac_sdk.host.array_values import as_array
from xlac_sdk.host.call_binding import unknown

Sizes = tuple[tuple[str, int], ...]


class PipelinePrograms(RankTrainingPrograms):
    """The programs of one rank of a pipeline. Calls take all micro-batches of a step at once."""

    def __init__(
        self,
        models: Mapping[str, Model],
        options: Mapping[str, Any],
        among: RankTraining,
        said: SaidPipeline,
    ) -> None:
        super().__init__(models, options, among)
        self._passes = [name for name in models if name.startswith(ACCUMULATE)]
        self._numbers = numbers_of(among.tensors)
        self._said, self._tensors = said, among.tensors
        self._stages = self._mesh.sizes[said.axis]
        self._stage, self._peers = self._mesh.along(self._ranks.rank, said.axis)
        self._pool = ArrayPool()
        self._local: dict[tuple[str, Sizes], LocalModel] = {}
        self._phase_plans: dict[tuple[str, Sizes], PhasePlan] = {}
        self._orders: dict[tuple[PhasePlan, ...], PipelineOrder] = {}
        self._phases: dict[Phase, Compiled] = {}
        usual = {kind: self._sizes(one.default_sizes) for kind, one in self.entries.items()}
        forward = self._local_model("evaluate", usual["evaluate"]).model.graph
        self._stage_of: StageOfPath = stages_of(said, self._stages, forward, Rates())
        every = [self._local_model(kind, sizes).model for kind, sizes in usual.items()]
        kept = {name for name, tensor in among.tensors.items() if not tensor.transient}
        self._sums = sums_at_home(every, self._stage_of, self._stages, kept)
        self._stage_of = self._sums.stage_of
        read = [self._sums.read(model) for model in every]
        self._held = holders(read, self._stage_of, self._stages, kept)

    # ---- calls -------------------------------------------------------------------------------

    def called(self, kind: str, arrays: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
        return next(self.calls([(kind, arrays)]))

    def calls(
        self, needed: Iterable[tuple[str, Mapping[str, Any]]]
    ) -> Iterator[tuple[dict[str, Any], dict[str, int]]]:
        known = {name for one in self.entries.values() for name in one.inputs}
        plans, locals, inputs, every = [], [], [], []
        needed = list(needed)
        rows = rows_of([kind for kind, _ in needed], self._passes)
        for at, (kind, arrays) in zip(rows, needed, strict=True):
            for name in arrays.keys() - known:
                raise unknown("input", name, sorted(known))
            entry = self.entries[kind]
            given = {n: as_array(arrays[n], None, n) for n in entry.inputs if n in arrays}
            sizes = entry.sizes(given)
            local = self._local_model(kind, self._sizes(sizes))
            own = parts_of_inputs(given, local.inputs, local.plan, self._ranks.rank)
            plans.append(self._plan(kind, self._sizes(sizes)))
            locals.append(local)
            inputs.append({**own, **dict.fromkeys(self._numbers, np.asarray(at, np.int64))})
            every.append(sizes)
        order = self._ordered(tuple(plans), locals)
        self._gathered = {}
        tasks = order.ranks[self._stage]
        run = PipelineRun(plans, tasks, self._stage, self._peers, self._ranks, self._pool)
        run.run(inputs, self._compute, self._set)
        for at, (plan, local) in enumerate(zip(plans, locals, strict=True)):
            outputs = {
                name: self._whole(
                    np.array(run.value(at, number)),
                    local.plan.outputs[name],
                    static(local.outputs[name].shape),
                )
                for name, number in plan.outputs.items()
            }
            yield outputs, every[at]
        run.finish()

    def _compute(
        self, at: int, phase: Phase, given: Mapping[str, Array], into: Mapping[str, Array]
    ) -> None:
        program = self._phases[phase]
        self._make_current(program)
        stopping.check()
        program.executable.run(given, into)

    def _set(self, name: str, array: Array) -> None:
        TrainingPrograms.write(self, name, array)

    # ---- plans -------------------------------------------------------------------------------

    def _sizes(self, sizes: Mapping[str, int]) -> Sizes:
        return tuple(sizes.items())

    def _local_model(self, kind: str, sizes: Sizes) -> LocalModel:
        """The whole model of an entry, as this rank divides it with those of its stage."""
        if (kind, sizes) not in self._local:
            divided = self._division.of_entry(self.entries[kind].model)
            model = specialized(load(divided, precision=self._precision), dict(sizes))
            numbered = without_state(model, self._numbers)
            local = LocalModel.of(numbered, self._mesh, self._ranks.rank, self._facts)
            self._local[kind, sizes] = local
        return self._local[kind, sizes]

    def _plan(self, kind: str, sizes: Sizes) -> PhasePlan:
        """An entry in phases."""
        if (kind, sizes) not in self._phase_plans:
            model = self._sums.read(self._local_model(kind, sizes).model)
            plan = phases_of(model, self._stage_of, self._stages, self._held)
            if kind.startswith(ACCUMULATE):
                refuse_copies(plan)
            self._phase_plans[kind, sizes] = plan
        return self._phase_plans[kind, sizes]

    def _ordered(self, plans: tuple[PhasePlan, ...], locals: list[LocalModel]) -> PipelineOrder:
        """The order of some micro-batches, with every phase of this rank compiled."""
        if plans not in self._orders:
            order = ordered(plans, self._said.schedule)
            check_order(plans, order.ranks)
            agree(self._ranks, plans, order.ranks)
            for local in locals:
                check_collectives(local, self._backend, self._facts)
                self._ranks.groups(local.groups(self._ranks.rank))
            with self._ranks.working("compile its stages"):
                for plan in dict.fromkeys(plans):
                    for phase in plan.phases:
                        if phase.rank == self._stage and phase not in self._phases:
                            self._phases[phase] = self._built(phase)
            self._ranks.settle()
            self._orders[plans] = order
        return self._orders[plans]

    def _built(self, phase: Phase) -> Compiled:
        return executable(lower(phase.model, self._facts, **self._lowering), self._backend)

    # ---- the state ---------------------------------------------------------------------------

    def begin(self, state: dict[str, Array]) -> None:
        """Sets the whole state, of which this rank keeps what its stages hold."""
        super().begin({name: one for name, one in state.items() if self._holds(name)})

    def _holds(self, name: str) -> bool:
        return self._stage in self._held.get(name, ())

    def tensor(self, name: str) -> Array:
        """A copy of one whole tensor of the state, from the ranks that hold it."""
        if len(self._held[name]) == self._stages:
            return super().tensor(name)
        if name not in self._gathered:
            self._gathered[name] = self._collected(name)
        return np.array(self._gathered[name])

    def _collected(self, name: str) -> Array:
        """A tensor on every rank, from those of a stage that holds it."""
        type, home = self._tensors[name].type, min(self._held[name])
        shape, places = self._shapes[name], map(self._mesh.place, range(self._mesh.ranks))
        ranks = [n for n, at in enumerate(places) if at[self._said.axis] == home]
        if self._holds(name):
            own = TrainingPrograms.tensor(self, name)
        else:
            own = self._own(name, np.zeros(shape, type.dtype.numpy))
        return self._assembled(own, self._shardings[name], shape, ranks)

    def write(self, name: str, array: Array) -> None:
        self._gathered.pop(name, None)
        if self._holds(name):
            super().write(name, array)


def step_models(graphs: TrainingGraphs, model: Model) -> StepModels:
    """The models of a step in a pipeline, of the sizes that they are optimized for; of another
    entry, `model`, it alone.
    """
    usual = {kind: specialized(one) for kind, one in graphs.entries.items()}
    kept = {tensor.name for tensor in graphs.state if not tensor.transient}
    entry = next(n for n, one in graphs.entries.items() if model.graph.name == one.graph.name)
    micro = [entry]
    if entry == "step":
        micro = kinds_of_step(graphs)
    models = {"evaluate": usual["evaluate"], **usual}
    return StepModels(models, micro, kept, numbers_of(tensor.name for tensor in graphs.state))


def numbers_of(names: Iterable[str]) -> list[str]:
    """The tensors of a state that count the micro-batches of each pass."""
    return [name for name in names if name == NUMBER or name.startswith(f"{NUMBER}.")]


def kinds_of_step(graphs: TrainingGraphs) -> list[str]:
    """The entries that take the micro-batches of a step, in order: each pass takes all of them."""
    kinds = [kind for kind in graphs.accumulate for _ in range(graphs.micro_batches)]
    return [*kinds[:-1], "step"] if kinds else ["step"]


def rows_of(kinds: Sequence[str], passes: Sequence[str]) -> list[int]:
    """The number of each micro-batch in its pass; a step ends the last of the `passes`."""
    done: dict[str, int] = {}
    rows = []
    for kind in kinds:
        one = passes[-1] if kind == "step" and passes else kind
        rows.append(done.get(one, 0))
        done[one] = rows[-1] + 1
    return rows


def programs_of(
    models: Mapping[str, Model],
    options: Mapping[str, Any],
    tell: Callable[[str], object] | None,
    among: RankTraining | None,
) -> TrainingPrograms:
    """The programs of training in one process, or on a rank of a mesh. Raises SourceError, and
    UnsupportedError where there are not as many ranks as the mesh has.
    """
    if among is None:
        return TrainingPrograms(models, options, tell)
    said = models["step"].ranks
    if said is not None and said.pipeline is not None:
        return PipelinePrograms(models, options, among, said.pipeline)
    return RankTrainingPrograms(models, options, among)
