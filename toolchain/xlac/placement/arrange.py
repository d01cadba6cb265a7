"""Finds the order of a call: copies start when a value exists, and are awaited where it is read;
stages on different devices pass at once where that is predicted to take less time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xlac.placement.call_order import CallOrder, CopyStart, StagePost, StageStart, Step, ValueDone
from xlac.placement.stage_models import StageValues
from xlac.placement.timeline import (
    CopyLink,
    CopySpan,
    StageFacts,
    Timeline,
    TimeSpan,
    processors_of,
)

HANDOVER = 30e-6
"""Seconds until a thread goes on that waited for another, as measured with Python's events."""
GAIN = 100e-6
"""Seconds that several threads must save in a call to be used: predictions are no better."""


@dataclass(frozen=True, slots=True)
class Arranged:
    """The order of a call, and the times that are predicted for it."""

    order: CallOrder
    times: Timeline


def arranged(
    values: StageValues,
    facts: Sequence[StageFacts],
    sizes: Mapping[int, int],
    link: CopyLink,
    processors: float,
) -> Arranged:
    """The order of a model's stages. `sizes` has the bytes of each value, `processors` says how
    many of the host may be busy at once.
    """
    targets = dict.fromkeys(one.target for one in facts)
    alone = _Arranging(values, facts, sizes, link, dict.fromkeys(targets, 0)).arranged()
    several = _threads(facts, processors)
    if max(several.values(), default=0):
        beside = _Arranging(values, facts, sizes, link, several).arranged()
        if beside.times.end + GAIN < alone.times.end:
            return beside
    return alone


def _threads(facts: Sequence[StageFacts], processors: float) -> dict[str, int]:
    """A thread for each target, by number; targets that the host has no processors left for are in
    that of the first.
    """
    threads: dict[str, int] = {}
    busy = 0
    for target, taken in processors_of(facts).items():
        shared = bool(threads) and taken > 0 and busy + taken > processors
        threads[target] = 0 if shared else max(threads.values(), default=-1) + 1
        busy += 0 if shared else taken
    return threads


@dataclass
class _Arranging:
    """The steps and times so far. Stages of a target keep their order; of those that are next on
    their targets, the one that can start soonest is taken.
    """

    values: StageValues
    facts: Sequence[StageFacts]
    sizes: Mapping[int, int]
    link: CopyLink
    threads: Mapping[str, int]  # by target
    steps: list[list[Step]] = field(init=False)
    free: list[float] = field(init=False)  # when each thread is
    times: Timeline = field(init=False, default_factory=Timeline)
    there: dict[int, float] = field(init=False, default_factory=dict)  # when values are on the host
    maker: dict[int, int] = field(init=False, default_factory=dict)
    readers: dict[int, list[int]] = field(init=False, default_factory=dict)
    arrives: dict[int, float] = field(init=False, default_factory=dict)  # the inputs of a stage
    engines: dict[tuple[str, bool], float] = field(init=False, default_factory=dict)
    busy: dict[str, float] = field(init=False, default_factory=dict)  # until when a device is
    awaited: set[tuple[int, int]] = field(init=False, default_factory=set)  # by threads
    begun: set[int] = field(init=False, default_factory=set)  # threads that started a stage

    def __post_init__(self) -> None:
        count = max(self.threads.values(), default=0) + 1
        self.steps, self.free = [[] for _ in range(count)], [0.0] * count
        for number, (reads, writes) in enumerate(self.values.stages):
            self.maker |= dict.fromkeys(writes.values(), number)
            for value in dict.fromkeys(reads.values()):
                self.readers.setdefault(value, []).append(number)

    def arranged(self) -> Arranged:
        queues: dict[str, list[int]] = {}
        for number, one in enumerate(self.facts):
            queues.setdefault(one.target, []).append(number)
        while heads := [queue[0] for queue in queues.values() if queue]:
            ready = [number for number in heads if self._is_ready(number)]
            _, _, number = min((self._soonest(n), not self.facts[n].overlapping, n) for n in ready)
            self._take(number)
            queues[self.facts[number].target].pop(0)
        self.times.copies.sort(key=lambda copy: copy.span.start)
        overlapping = frozenset(n for n, one in enumerate(self.facts) if one.overlapping)
        return Arranged(CallOrder(tuple(map(tuple, self.steps)), overlapping), self.times)

    def _thread(self, stage: int) -> int:
        return self.threads[self.facts[stage].target]

    def _reads(self, stage: int) -> list[int]:
        """The values that a stage reads, those first that are there first."""
        values = dict.fromkeys(self.values.stages[stage][0].values())
        return sorted(values, key=lambda value: self.there.get(value, 0.0))

    def _is_ready(self, stage: int) -> bool:
        """Whether all stages that it reads from have started."""
        return all(v in self.there for v in self._reads(stage) if v in self.maker)

    def _soonest(self, stage: int) -> float:
        """When the stage's thread can start it."""
        soonest = max(self.free[self._thread(stage)], self.busy.get(self.facts[stage].target, 0.0))
        return max([soonest, *(self._seen(v, self._thread(stage)) for v in self._reads(stage))])

    def _seen(self, value: int, thread: int) -> float:
        """When a thread knows that a value is there."""
        if value not in self.maker:
            return 0.0
        return self.there[value] + HANDOVER * (self._thread(self.maker[value]) != thread)

    def _take(self, stage: int) -> None:
        """Adds the steps of a stage."""
        fact, thread = self.facts[stage], self._thread(stage)
        steps, first = self.steps[thread], thread not in self.begun
        if first and not fact.overlapping:
            self._copy_given(thread)
        for value in self._reads(stage):
            maker = self.maker.get(value)
            if maker is not None:
                self._await(value, maker, thread)
            elif first:
                self._copy(value, stage, thread)
        steps.append(StageStart(stage))
        self.begun.add(thread)
        self._time(stage, thread)
        if first and fact.overlapping:
            self._copy_given(thread, stage)
        self._pass_on(stage, thread)

    def _await(self, value: int, maker: int, thread: int) -> None:
        """Waits for a value of another stage, if the thread has to; it then starts to copy what a
        device computed to the other devices of the thread.
        """
        beside = self.facts[maker].overlapping
        if (value, thread) in self.awaited or not (beside or self._thread(maker) != thread):
            return
        self.awaited.add((value, thread))
        self.free[thread] = max(self.free[thread], self._seen(value, thread))
        self.steps[thread].append(ValueDone(value))
        for reader in self.readers[value] if beside else ():
            if self._thread(reader) == thread:
                self._copy(value, reader, thread)

    def _copy_given(self, thread: int, started: int | None = None) -> None:
        """Starts the copies of all values that callers give to the devices of a thread's stages."""
        for stage in range(len(self.facts)):
            if self._thread(stage) == thread and stage != started:
                for value in self._reads(stage):
                    if value not in self.maker:
                        self._copy(value, stage, thread)

    def _time(self, stage: int, thread: int) -> None:
        """Predicts when a stage computes, and when its results are on the host."""
        fact, writes = self.facts[stage], self.values.results(stage).values()
        start = max(self.free[thread], self.arrives.get(stage, 0.0), self.busy.get(fact.target, 0))
        end = start + fact.seconds
        self.times.stages[stage] = TimeSpan(start, end)
        self.busy[fact.target] = end
        if not fact.overlapping:
            self.free[thread] = end
            self.there |= dict.fromkeys(writes, end)
            return
        for value in writes:
            self.there[value] = self._copied(value, stage, False, end)

    def _pass_on(self, stage: int, thread: int) -> None:
        """Starts the copies of a stage's values to other devices, and lets threads go on that wait
        for them.
        """
        posted = False
        for value in dict.fromkeys(self.values.stages[stage][1].values()):
            for reader in self.readers.get(value, ()):
                posted |= self._thread(reader) != thread
                if not self.facts[stage].overlapping:
                    self._copy(value, reader, thread)
        if posted:
            self.steps[thread].append(StagePost(stage))

    def _copy(self, value: int, stage: int, thread: int) -> None:
        """Starts a copy to the device of a stage, if that is one that copies."""
        if not self.facts[stage].overlapping:
            return
        self.steps[thread].append(CopyStart(value, stage))
        arrival = self._copied(value, stage, True, self.free[thread])
        self.arrives[stage] = max(self.arrives.get(stage, 0.0), arrival)

    def _copied(self, value: int, stage: int, to_device: bool, ready: float) -> float:
        """When a copy is done that may start at a time, and the last of its direction is done."""
        engine = self.facts[stage].target, to_device
        start = max(ready, self.engines.get(engine, 0.0))
        self.engines[engine] = end = start + self.link.seconds(self.sizes.get(value, 0))
        self.times.copies.append(CopySpan(value, stage, to_device, TimeSpan(start, end)))
        return end
