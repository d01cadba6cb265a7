"""In which order each rank of a pipeline computes the phases of all micro-batches of a step.

The order is that of a simulation with predicted times, which every rank does alike. What runs next
on a rank depends on the schedule:

* `gpipe`: all forward passes, then all backward passes;
* `1f1b`: a backward pass as soon as there is one, and no more micro-batches under way than there
  are stages from here to the last one, so that few activations are kept. Where ranks have several
  stages each (interleaved), micro-batches go through them in groups of as many as there are ranks,
  after Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters", 2021.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from xlac.ir.graph import Graph
from xlac.ops.collective.group import Collective
from xlac.pipelining.plan import Phase, PhasePlan
from xlac.spmd.run_time import Rates, computing, seconds_of

SCHEDULES = ("1f1b", "gpipe")

Task = tuple[int, int]
"""A micro-batch, and a phase of it, by their numbers."""


@dataclass(frozen=True, eq=False)
class PhaseTimes:
    """Predicted seconds of each phase of a plan, and of its messages, by phase and rank."""

    phases: tuple[float, ...]
    messages: Mapping[tuple[int, int], float]

    @staticmethod
    def of(plan: PhasePlan, rates: Rates) -> PhaseTimes:
        """Operations one after the other, and messages one after the other."""
        link = rates.link
        return PhaseTimes(
            tuple(_seconds(one, rates) for one in plan.phases),
            {
                (one.source, one.rank): link.latency + plan.nbytes(one) / link.rate
                for one in plan.messages
            },
        )


def _seconds(phase: Phase, rates: Rates) -> float:
    """The time of a phase, with what it reads and writes, and what ranks exchange in it."""
    whole = phase.model.graph
    read = set(whole.order)
    graph = Graph(whole.name, tuple(i for i in whole.inputs if i in read), whole.outputs)
    exchanged = sum(seconds_of(n, rates) for n in graph.order if isinstance(n.op, Collective))
    return sum(computing(graph, rates).values()) + exchanged


@dataclass(frozen=True, eq=False)
class PipelineOrder:
    """The tasks of each rank in order, and when each begins and ends, as predicted."""

    ranks: tuple[tuple[Task, ...], ...]
    times: Mapping[Task, tuple[float, float]]

    @cached_property
    def seconds(self) -> float:
        """The time of a step."""
        return max((end for _, end in self.times.values()), default=0.0)

    def busy(self, rank: int) -> float:
        """The seconds of a step in which a rank computes."""
        return sum(self.times[task][1] - self.times[task][0] for task in self.ranks[rank])

    @property
    def bubble(self) -> float:
        """The share of the time of all ranks in which they wait."""
        if not self.seconds:
            return 0.0
        busy = sum(self.busy(rank) for rank in range(len(self.ranks)))
        return 1 - busy / (self.seconds * len(self.ranks))


def ordered(
    plans: Sequence[PhasePlan],
    schedule: str = "1f1b",
    rates: Rates | None = None,
    times: Mapping[PhasePlan, PhaseTimes] | None = None,
) -> PipelineOrder:
    """The order of a step of some micro-batches, each in the phases of its plan. `times` are those
    of plans where they are known.
    """
    known = dict(times or {})
    for plan in plans:
        if plan not in known:
            known[plan] = PhaseTimes.of(plan, rates or Rates())
    return _Simulation(plans, schedule, [known[plan] for plan in plans]).run()


def conflicts(one: Phase, other: Phase) -> bool:
    """Whether two phases of a rank have to keep their order, because of a state."""
    if one.rank != other.rank:
        return False
    return bool(one.gives & (other.takes | other.gives) or one.takes & other.gives)


def needs(plans: Sequence[PhasePlan], task: Task) -> list[Task]:
    """The tasks that have to be done before one: those whose values it reads, and those before it
    on its rank that read or change the same state.
    """
    at, number = task
    plan = plans[at]
    phase = plan.phases[number]
    found = {(at, plan.values[value].source) for value in phase.reads.values()}
    found |= {(at, one.number) for one in plan.phases[:number] if conflicts(one, phase)}
    if at:
        found |= {(at - 1, one.number) for one in plans[at - 1].phases if conflicts(one, phase)}
    return sorted(found)


@dataclass
class _Simulation:
    """Ranks that take one task after the other."""

    plans: Sequence[PhasePlan]
    schedule: str
    seconds: Sequence[PhaseTimes]
    times: dict[Task, tuple[float, float]] = field(init=False, default_factory=dict)
    more: int = field(init=False, default=0)  # micro-batches under way beyond what is usual

    def __post_init__(self) -> None:
        self.ranks = self.plans[0].ranks
        stages = 1 + max(phase.stage for phase in self.plans[0].phases)
        self.chunks = -(-stages // self.ranks)
        self.orders: list[list[Task]] = [[] for _ in range(self.ranks)]
        self.free = [0.0] * self.ranks
        # for each rank the tasks of each part of its stages, by micro-batch, the last one first
        self.lanes: list[dict[tuple[int, int], list[Task]]] = [{} for _ in range(self.ranks)]
        for at in reversed(range(len(self.plans))):
            for phase in self.plans[at].phases:
                lane = self.lanes[phase.rank].setdefault((phase.turn, phase.stage), [])
                lane.append((at, phase.number))
        self.turns = {  # how many turns a stage has in each micro-batch
            (at, phase.stage): sum(other.stage == phase.stage for other in plan.phases)
            for at, plan in enumerate(self.plans)
            for phase in plan.phases
        }
        self.before = {
            (at, phase.number): needs(self.plans, (at, phase.number))
            for at, plan in enumerate(self.plans)
            for phase in plan.phases
        }

    def run(self) -> PipelineOrder:
        left = sum(len(lane) for lanes in self.lanes for lane in lanes.values())
        while left:
            found = [one for rank in range(self.ranks) if (one := self._next(rank)) is not None]
            if not found:
                self.more += 1  # the last tasks of an uneven pipeline
                continue
            start, rank, task = min(found)
            self._take(rank, task, start)
            left -= 1
        return PipelineOrder(tuple(map(tuple, self.orders)), self.times)

    def _take(self, rank: int, task: Task, start: float) -> None:
        at, number = task
        phase = self.plans[at].phases[number]
        end = start + self.seconds[at].phases[number]
        self.times[task] = (start, end)
        self.free[rank] = end
        self.orders[rank].append(task)
        self.lanes[rank][phase.turn, phase.stage].pop()

    def _next(self, rank: int) -> tuple[float, int, Task] | None:
        """What a rank does next, and when; None where it can do nothing yet."""
        ready: list[tuple[float, tuple[int, ...], Task]] = []
        for lane in self.lanes[rank].values():
            if lane and (when := self._ready(lane[-1])) is not None and self._may(rank, lane[-1]):
                ready.append((max(when, self.free[rank]), self._rank_of(lane[-1]), lane[-1]))
        if not ready:
            return None
        start = min(when for when, _, _ in ready)
        _, task = min((order, task) for when, order, task in ready if when <= start)
        return start, rank, task

    def _ready(self, task: Task) -> float | None:
        """When what a task needs is there."""
        at, number = task
        rank = self.plans[at].phases[number].rank
        when = 0.0
        for before in self.before[task]:
            if before not in self.times:
                return None
            other = self.plans[before[0]].phases[before[1]].rank
            sent = self.seconds[at].messages[before[1], rank] if other != rank else 0.0
            when = max(when, self.times[before][1] + sent)
        return when

    def _rank_of(self, task: Task) -> tuple[int, ...]:
        """What comes first of tasks that are ready is the least."""
        at, number = task
        phase = self.plans[at].phases[number]
        forward = phase.turn == 0
        group = at // self.ranks if self.chunks > 1 else 0
        chunk = phase.stage // self.ranks
        return not forward, group, chunk if forward else -chunk, at

    def _may(self, rank: int, task: Task) -> bool:
        """Whether a rank may begin another forward pass."""
        at, number = task
        phase = self.plans[at].phases[number]
        if self.schedule == "gpipe" or phase.turn or self.turns[at, phase.stage] == 1:
            return True
        under_way = 0
        for done in self.orders[rank]:
            one = self.plans[done[0]].phases[done[1]]
            turns = self.turns[done[0], one.stage]
            if turns > 1:
                under_way += (one.turn == 0) - (one.turn == 1)
        most = self.ranks - rank
        if self.chunks > 1:
            most = 2 * (self.ranks - rank - 1) + (self.chunks - 1) * self.ranks + 1
        return under_way < most + self.more
