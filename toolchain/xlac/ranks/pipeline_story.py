"""Explains a pipeline: stages, what they send, and how long ranks wait, as predicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xlac.driver import Lowered, lower
from xlac.model import SaidPipeline
from xlac.pipelining.check import check_order
from xlac.pipelining.kept import most_kept
from xlac.pipelining.plan import Message, Phase, PhasePlan
from xlac.pipelining.schedule import PhaseTimes, PipelineOrder, ordered
from xlac.ranks.pipeline_plans import StepModels
from xlac.spmd.mesh import Mesh
from xlac.spmd.run_time import Rates
from xlac_sdk.support.counts import number_of
from xlac_sdk.target import Target

TURNS = ("forwards", "backwards")


@dataclass(frozen=True, slots=True, eq=False)
class PipelineStory:
    """A step in a pipeline, as predicted at some rates."""

    plans: Sequence[PhasePlan]
    order: PipelineOrder
    said: SaidPipeline
    mesh: Mesh
    rates: Rates

    @staticmethod
    def of(
        step: StepModels, said: SaidPipeline, mesh: Mesh, target: Target, rates: Rates
    ) -> PipelineStory:
        """The story of a step; orders are those of a run, whatever the rates."""
        _, plans = step.plans(said, mesh, 0, target, Rates())
        every = [plans[kind] for kind in step.micro]
        times = {plan: PhaseTimes.of(plan, rates) for plan in plans.values()}
        return PipelineStory(every, ordered(every, said.schedule, times=times), said, mesh, rates)

    def lowered(self, target: Target) -> list[tuple[Phase, Lowered]]:
        """The programs of all phases of the last micro-batch."""
        return [(phase, lower(phase.model, target)) for phase in self.plans[-1].phases]

    def tell(self, lowered: Sequence[tuple[Phase, Lowered]]) -> str:
        """Stages with their times and messages, the order of the step, and memory of each rank."""
        plan, last = self.plans[0], self.plans[-1]
        axis, ranks = self.said.axis, self.plans[0].ranks
        links = f"links of {self.rates.link}"
        lines = [f"mesh {self.mesh}: {number_of(self.mesh.ranks, 'rank')}; {links}"]
        for stage in dict.fromkeys(phase.stage for phase in sorted(plan.phases, key=_by_stage)):
            lines += self._stage(plan, stage)
        if last is not plan:
            more = [one for one in last.messages if not _is_in(one, last, plan)]
            size = sum(map(last.nbytes, more))
            lines.append(
                f"after the last micro-batch {number_of(len(more), 'more message')}, {size:,} bytes"
            )
        order, most = self.order, check_order(self.plans, self.order.ranks)
        count = number_of(len(self.plans), "micro-batch", "micro-batches")
        lines.append(
            f"{count} by {self.said.schedule}: a step takes {_time(order.seconds)}, "
            f"of which ranks wait for {order.bubble:.1%}"
        )
        for rank in range(ranks):
            needs = self.memory(rank, lowered)
            told = ", ".join(f"{amount:,} bytes of {name}" for name, amount in needs.items())
            lines.append(
                f"{axis}={rank}: computes for {_time(order.busy(rank))}, keeps at most "
                f"{number_of(max(most[rank], 1), 'micro-batch', 'micro-batches')}; memory: {told}"
            )
        return "\n".join(lines)

    def _stage(self, plan: PhasePlan, stage: int) -> Iterator[str]:
        phases = [phase for phase in plan.phases if phase.stage == stage]
        names = dict.fromkeys(n.name for p in phases for n in p.nodes if n.name)
        told = ", ".join(list(names)[:12]) + (", …" if len(names) > 12 else "")
        yield f"stage {stage} at {self.said.axis}={stage % plan.ranks}: {told or 'no nodes'}"
        times = PhaseTimes.of(plan, self.rates)
        for phase in phases:
            several = len(phases) > 1 and phase.turn < 2
            what = TURNS[phase.turn] if several else "all at once"
            yield f"    {what}: {_time(times.phases[phase.number])} for a micro-batch"
            for message in plan.messages:
                if message.source == phase.number:
                    seconds = _time(times.messages[message.source, message.rank])
                    yield (
                        f"    then to {self.said.axis}={message.rank}: {_values(plan, message)}, "
                        f"{plan.nbytes(message):,} bytes, {seconds}"
                    )

    def memory(self, rank: int, lowered: Sequence[tuple[Phase, Lowered]]) -> dict[str, int]:
        """The bytes that the ranks at a place along the axis of stages need."""
        own = [one.program for phase, one in lowered if phase.rank == rank]
        arena = max((one.arena_bytes for one in own), default=0)
        state = max((one.state_bytes for one in own), default=0)
        weights = sum(array.nbytes for one in own for array in one.constants.values())
        kept = most_kept(self.plans, self.order.ranks[rank], rank)
        return {"arena": arena, "state": state, "weights": weights, "values between phases": kept}


def _by_stage(phase: Phase) -> int:
    return phase.stage


def _is_in(message: Message, whole: PhasePlan, plan: PhasePlan) -> bool:
    """Whether every micro-batch has such a message, from the same part of a stage to a rank."""
    source = whole.phases[message.source]
    return any(
        one.rank == message.rank
        and (plan.phases[one.source].stage, plan.phases[one.source].turn)
        == (source.stage, source.turn)
        for one in plan.messages
    )


def _values(plan: PhasePlan, message: Message) -> str:
    """The values of a message, the large ones first; as many as are readable."""
    values = sorted((plan.values[n] for n in message.values), key=lambda v: -v.node.type.nbytes)
    told = [f"{value.name} {value.node.type}" for value in values[:4]]
    if len(values) > 4:
        rest = Counter(value.node.type.size for value in values[4:])
        told.append(f"{number_of(rest.total(), 'other value')}")
    return ", ".join(told)


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:,.1f} us"
