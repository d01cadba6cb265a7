"""What `xlac plan` prints: plans with their exact memory, and the sections of the best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from xlac.model import Model
from xlac.pipelining.kept import held_bytes
from xlac.ranks.pipeline_plans import StepModels
from xlac.ranks.pipeline_story import PipelineStory
from xlac.ranks.program import memory_of, rank_program
from xlac.spmd.mesh import Mesh, Sharding
from xlac.spmd.model import in_stages, of_rank
from xlac.spmd.partition import Partitioned
from xlac.spmd.search import MeshPlan, PlanSearch, too_large
from xlac.spmd.step_time import StepTime, times_in_turn
from xlac.spmd.sums.states import partial_states, with_partial_states
from xlac_sdk.backend import Backend


@dataclass(frozen=True, slots=True, eq=False)
class StepPrediction:
    """Predicts steps for a search: of several micro-batches, and in stages."""

    search: PlanSearch
    step: StepModels

    def __call__(self, model: Model, mesh: Mesh, made: Partitioned) -> tuple[StepTime, int]:
        """The time of a step, and the bytes that a rank keeps. In stages, `compute` is that of the
        rank that computes longest, and the rest of the step is waiting.
        """
        target, said = self.search.target, model.ranks
        if said is not None and said.pipeline is not None and in_stages(model, mesh):
            story = self.story(model, mesh)
            ranks = range(mesh.sizes[said.pipeline.axis])
            busy = max(map(story.order.busy, ranks))
            held = max(held_bytes(story.plans, rank) for rank in ranks)
            return StepTime(busy, story.order.seconds - busy, 0.0), held
        times: dict[str, StepTime] = {}
        kept = 0
        models = self.summing(model, mesh)
        for kind in dict.fromkeys(self.step.micro):
            own = models[kind]
            known = kind == self.step.micro[-1] and own.ranks == said
            one = made if known else of_rank(own, mesh, 0, target)[1]
            times[kind], kept = self.search.timed(own, mesh, one)
        return times_in_turn(times[kind] for kind in self.step.micro), kept

    def summing(self, model: Model, mesh: Mesh) -> dict[str, Model]:
        """The models of a step with the sections of `model`, and sums over micro-batches that ranks
        add up for themselves.
        """
        assert model.ranks is not None
        models = {n: replace(one, ranks=model.ranks) for n, one in self.step.models.items()}
        before = {kind: models[kind] for kind in self.step.micro[:-1]}
        states = partial_states(before, mesh, 0, self.search.target)
        section = with_partial_states(model.ranks, states) if states else model.ranks
        return {name: replace(one, ranks=section) for name, one in models.items()}

    def story(self, model: Model, mesh: Mesh) -> PipelineStory:
        """The pipeline of a model with its sections `mesh`, `shard` and `pipeline`."""
        assert model.ranks is not None and model.ranks.pipeline is not None
        step = replace(self.step, models=self.summing(model, mesh))
        said, search = model.ranks.pipeline, self.search
        return PipelineStory.of(step, said, mesh, search.target, search.rates)

    def alone(self) -> float:
        """The time of a step in one process."""
        return sum(self.search.alone(self.step.models[kind]) for kind in self.step.micro)


@dataclass(frozen=True, slots=True)
class LoweredPlan:
    """A plan, and the bytes that each rank needs, of its compiled program."""

    plan: MeshPlan
    memory: int


def memory_of_plan(plan: MeshPlan, times: StepPrediction, backend: Backend) -> int:
    """The bytes of a rank of a plan; in stages, of the one that needs most."""
    target = times.search.target
    if not in_stages(plan.model, plan.mesh):
        return sum(memory_of(rank_program(plan.model, plan.mesh, 0, backend, target)).values())
    story = times.story(plan.model, plan.mesh)
    lowered = story.lowered(target)
    ranks = range(story.plans[0].ranks)
    return max(sum(story.memory(rank, lowered).values()) for rank in ranks)


def lowered_plans(
    times: StepPrediction, model: Model, ranks: int, count: int, backend: Backend
) -> list[LoweredPlan]:
    """The `count` best plans whose programs fit the limit of the search. Raises SourceError where
    none does.
    """
    search = replace(times.search, timer=times)
    found: list[LoweredPlan] = []
    least: list[int] = []
    for plan in search.plans(model, ranks):
        memory = memory_of_plan(plan, times, backend)
        least.append(memory)
        if search.limit is None or memory <= search.limit:
            found.append(LoweredPlan(plan, memory))
        if len(found) == count:
            break
    if not found:
        raise too_large(min(least), search.limit)
    return found


def tell_plans(times: StepPrediction, ranks: int, plans: list[LoweredPlan]) -> str:
    """A line for each plan, and what the best one is in a spec. `efficiency` is the time of one
    process divided by that of all ranks together.
    """
    search, alone = times.search, times.alone()
    about = f"links of {search.link}; each computes {search.device}"
    columns = f"{'step':>12} {'compute':>12} {'wire':>12} {'hidden':>7} {'efficiency':>10}"
    lines = [
        f"{ranks} ranks; {about}; one process: {_time(alone)}",
        f"{columns} {'memory':>18}  mesh",
    ]
    for one in plans:
        plan = one.plan
        share = alone / (ranks * plan.seconds) if plan.seconds else 1.0
        time = plan.time
        hidden = time.hidden / time.wire if time.wire else 0.0
        lines.append(
            f"{_time(time.seconds):>12} {_time(time.compute):>12} {_time(time.wire):>12} "
            f"{hidden:>7.1%} {share:>10.1%} {one.memory:>12,} bytes  {plan.mesh}"
        )
    best = plans[0].plan
    lines.append("mesh: {" + ", ".join(f"{name}: {size}" for name, size in best.mesh.axes) + "}")
    if best.chosen:
        lines.append("shard:")
        lines += [f'  "{name}": {axes}' for name, axes in _patterns(best.chosen).items()]
    return "\n".join(lines)


def _patterns(chosen: Mapping[str, Sharding]) -> dict[str, str]:
    """Shardings by name as a spec writes them."""
    return {
        name: "[" + ", ".join(names[0] if names else "null" for names in axes) + "]"
        for name, axes in chosen.items()
    }


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:,.1f} us"
