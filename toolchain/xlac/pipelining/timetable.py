"""What a rank of a pipeline does in a step, in order: its tasks, and the messages before and after
them, so that memory can be planned before anything runs.

A message is received into memory from the task before the one that reads it on, so that it comes
while that one computes. Memory of what is sent is free where the rank waits for the message to be
gone: before the first task that cannot begin before the other rank has posted its receive and done
the task that follows. So no rank waits for one that waits for it, even if MPI copies no message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from xlac.pipelining.plan import PhasePlan
from xlac.pipelining.schedule import Task

ValueOf = tuple[int, int]
"""A micro-batch, and one of its values, by their numbers."""

TAGS = 32_000  # MPI has at least 32,767; messages so far apart are not under way together


@dataclass(frozen=True, slots=True)
class RankMessage:
    """A value that a rank sends another; `tag` is the same on both."""

    value: ValueOf
    source: int
    target: int
    tag: int


@dataclass(frozen=True, slots=True)
class MessageEvent:
    """A rank begins to send or to receive a message, or waits until that is done."""

    message: RankMessage
    what: Literal["send", "sent", "receive", "received"]


@dataclass(frozen=True, slots=True)
class PhaseEvent:
    """A rank computes a phase."""

    task: Task


@dataclass(frozen=True, slots=True)
class StateEvent:
    """A state gets a value."""

    state: str
    value: ValueOf


@dataclass(frozen=True, slots=True)
class OutputEvent:
    """The output of a micro-batch is a value."""

    output: str
    value: ValueOf


Event = MessageEvent | PhaseEvent | StateEvent | OutputEvent


def timetable(
    plans: Sequence[PhasePlan], ranks: Sequence[Sequence[Task]], rank: int
) -> list[Event]:
    """What a rank does; `ranks` are the tasks of all, in an order that `check_order` has found
    right.
    """
    return list(_Timetable(plans, ranks).of(rank))


class _Timetable:
    """The places of all tasks, and when each rank knows how far the others are."""

    def __init__(self, plans: Sequence[PhasePlan], ranks: Sequence[Sequence[Task]]) -> None:
        self.plans, self.ranks = plans, ranks
        self.place = {task: at for tasks in ranks for at, task in enumerate(tasks)}
        self.messages = list(self._messages())
        self.known = self._known()

    def of(self, rank: int) -> Iterator[Event]:
        """The events of a rank."""
        tasks, last = self.ranks[rank], len(self.ranks[rank])
        own = [one for one in self.messages if rank in (one.source, one.target)]
        coming = {one: self._first_read(one) for one in own if one.target == rank}
        going = {one: self._gone(one) for one in own if one.source == rank}
        for place, task in enumerate(tasks):
            yield from (MessageEvent(one, "sent") for one, at in going.items() if at == place)
            posted = (place, place + 1) if place == 0 else (place + 1,)
            now = [one for one, at in coming.items() if at in posted and at < last]
            yield from (MessageEvent(one, "receive") for one in now)
            here = [one for one, at in coming.items() if at == place]
            yield from (MessageEvent(one, "received") for one in here)
            yield from (give for one in here for give in self._given(one.value))
            yield PhaseEvent(task)
            yield from self._after(task, own)
        rest = [one for one, at in coming.items() if at == last]
        for what in ("receive", "received"):
            yield from (MessageEvent(one, what) for one in rest)
        yield from (give for one in rest for give in self._given(one.value))
        for at, plan in enumerate(self.plans):
            for name, number in plan.copied[rank].items():
                yield StateEvent(name, (at, number))
        yield from (MessageEvent(one, "sent") for one, at in going.items() if at == last)

    def _after(self, task: Task, own: Sequence[RankMessage]) -> Iterator[Event]:
        """What follows a task."""
        at, number = task
        phase = self.plans[at].phases[number]
        made = {(at, value) for value in phase.writes.values()}
        yield from (
            MessageEvent(m, "send") for m in own if m.source == phase.rank and m.value in made
        )
        for name, value in phase.late.items():
            yield StateEvent(name, (at, value))
        for one in sorted(made):
            yield from self._given(one)

    def _given(self, value: ValueOf) -> Iterator[OutputEvent]:
        at, number = value
        for name, output in self.plans[at].outputs.items():
            if output == number:
                yield OutputEvent(name, value)

    # ---- messages ----------------------------------------------------------------------------

    def _messages(self) -> Iterator[RankMessage]:
        count = 0
        for at, plan in enumerate(self.plans):
            for message in plan.messages:
                for value in message.values:
                    source = plan.phases[message.source].rank
                    yield RankMessage((at, value), source, message.rank, 1 + count % TAGS)
                    count += 1

    def _first_read(self, message: RankMessage) -> int:
        """The place of the first task that reads a message; after all tasks, where none does."""
        at, value = message.value
        readers = self.plans[at].readers(value, message.target)
        places = [self.place[at, phase] for phase in readers]
        return min(places, default=len(self.ranks[message.target]))

    def _gone(self, message: RankMessage) -> int:
        """The place before which a rank may wait until it has sent a message: after all tasks,
        unless the other has surely posted its receive before.
        """
        source, target = message.source, message.target
        posted = max(self._first_read(message) - 1, 0)
        at, value = message.value
        sent = self.place[at, self.plans[at].values[value].source]
        tasks = self.ranks[source]
        if self._first_read(message) < len(self.ranks[target]):
            for place in range(sent + 1, len(tasks)):
                if self.known[tasks[place]][target] > posted:
                    return place
        return len(tasks)

    def _known(self) -> dict[Task, tuple[int, ...]]:
        """For each task how many tasks each rank has surely done when it begins."""
        begun: dict[Task, tuple[int, ...]] = {}
        done: dict[Task, tuple[int, ...]] = {}
        next_place = [0] * len(self.ranks)
        while len(done) < len(self.place):
            for rank, tasks in enumerate(self.ranks):
                while next_place[rank] < len(tasks):
                    task = tasks[next_place[rank]]
                    before = self._sources(task)
                    if not before <= done.keys():
                        break
                    place = next_place[rank]
                    clocks = [done[one] for one in before]
                    clocks += [done[tasks[place - 1]]] if place else []
                    clock = [max(found, default=0) for found in zip(*clocks, strict=True)]
                    clock = clock or [0] * len(self.ranks)
                    begun[task] = tuple(clock)
                    clock[rank] = place + 1
                    done[task] = tuple(clock)
                    next_place[rank] += 1
        return begun

    def _sources(self, task: Task) -> set[Task]:
        """The tasks of other ranks that compute what a task reads."""
        at, number = task
        plan = self.plans[at]
        phase = plan.phases[number]
        sources = {plan.values[value].source for value in phase.reads.values()}
        return {(at, one) for one in sources if plan.phases[one].rank != phase.rank}
