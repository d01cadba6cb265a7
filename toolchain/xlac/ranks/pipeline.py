"""A run of micro-batches through the ranks of a pipeline: the part of one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from xlac.ir.dims import static
from xlac.ir.op import Array
from xlac.pipelining.plan import Message, Phase, PhasePlan
from xlac.pipelining.schedule import Task
from xlac_sdk.host.ranks.communicator import Communicator, PendingMessage

ALIGNMENT = 64  # bytes


@dataclass(eq=False)
class ArrayPool:
    """Arrays of values that no micro-batch uses now, by what they are for; `nbytes` of all."""

    spare: dict[tuple[PhasePlan, int], list[Array]] = field(default_factory=dict)
    nbytes: int = 0

    def take(self, plan: PhasePlan, value: int) -> Array:
        """An array for a value."""
        spare = self.spare.setdefault((plan, value), [])
        if spare:
            return spare.pop()
        type = plan.values[value].node.type
        array = np.empty(static(type.shape), type.dtype.numpy)
        self.nbytes += array.nbytes
        return array

    def give(self, plan: PhasePlan, value: int, array: Array) -> None:
        """Takes an array back."""
        self.spare[plan, value].append(array)


@dataclass(slots=True, eq=False)
class _Sent:
    """A message under way, and the values that its memory is."""

    message: PendingMessage
    values: Sequence[tuple[int, int]]


RunPhase = Callable[[int, Phase, Mapping[str, Array], Mapping[str, Array]], None]
"""Computes a phase of a micro-batch, from arrays of inputs and values into arrays of values."""


class PipelineRun:
    """One run of a rank: its tasks in order, with what others send it. After it `value` has the
    outputs.
    """

    def __init__(
        self,
        plans: Sequence[PhasePlan],
        tasks: Sequence[Task],
        rank: int,
        peers: Sequence[int],
        here: Communicator,
        pool: ArrayPool,
    ) -> None:
        """`rank` is along the axis of stages; `peers` are the ranks there, by their numbers."""
        self.plans, self.tasks, self.rank, self.peers = plans, tasks, rank, peers
        self.here, self.pool = here, pool
        self.values: dict[tuple[int, int], Array] = {}
        self.sent: list[_Sent] = []
        self.coming: dict[tuple[int, int], tuple[PendingMessage, Array]] = {}
        self.arrived: set[tuple[int, int]] = set()
        self.tags: list[int] = [0]
        for plan in plans:
            self.tags.append(self.tags[-1] + len(plan.messages))
        self.uses = {
            (at, number): len(plan.readers(number, rank)) + (rank in value.ends)
            for at, plan in enumerate(plans)
            for number, value in plan.values.items()
        }

    def run(
        self,
        inputs: Sequence[Mapping[str, Array]],
        compute: RunPhase,
        set_state: Callable[[str, Array], None],
    ) -> None:
        """Runs all tasks; `inputs` by micro-batch. `set_state` gives a state another value."""
        for place, task in enumerate(self.tasks):
            for later in self.tasks[place : place + 2]:  # so that messages come while one computes
                self._expect(later)
            self._task(task, inputs[task[0]], compute, set_state)
        for at, plan in enumerate(self.plans):
            for number in range(len(plan.messages)):
                if plan.messages[number].rank == self.rank:
                    self._begin(at, number)
                    self._wait(at, number)
        for at, plan in enumerate(self.plans):
            for name, number in plan.copied[self.rank].items():
                set_state(name, self.values[at, number])
        for one in self.sent:
            one.message.over()

    def value(self, at: int, number: int) -> Array:
        """A value of a micro-batch that this rank has at the end."""
        return self.values[at, number]

    def finish(self) -> None:
        """Gives the memory of all values back."""
        for (at, number), array in self.values.items():
            self.pool.give(self.plans[at], number, array)
        self.values.clear()

    def _task(
        self,
        task: Task,
        inputs: Mapping[str, Array],
        compute: RunPhase,
        set_state: Callable[[str, Array], None],
    ) -> None:
        at, number = task
        plan = self.plans[at]
        phase = plan.phases[number]
        for message in self._messages(task):
            self._wait(at, message)
        self._collect()
        given = {name: inputs[name] for name in phase.inputs}
        given |= {name: self.values[at, value] for name, value in phase.reads.items()}
        into = {name: self.pool.take(plan, value) for name, value in phase.writes.items()}
        compute(at, phase, given, into)
        self.values.update({(at, value): into[name] for name, value in phase.writes.items()})
        for count, sent in enumerate(plan.messages):
            if sent.source == number:
                self._send(at, count, sent)
        for name, value in phase.late.items():
            set_state(name, self.values[at, value])
        for value in [*phase.reads.values(), *phase.writes.values()]:
            if value in phase.reads.values():
                self.uses[at, value] -= 1
            self._free(at, value)

    def _messages(self, task: Task) -> list[int]:
        """The messages, by number, that a task waits for."""
        at, number = task
        plan = self.plans[at]
        wanted = set(plan.phases[number].reads.values())
        return [
            count
            for count, message in enumerate(plan.messages)
            if message.rank == self.rank and wanted & set(message.values)
        ]

    def _expect(self, task: Task) -> None:
        for message in self._messages(task):
            self._begin(task[0], message)

    def _begin(self, at: int, number: int) -> None:
        """Begins to receive a message, once."""
        key = (at, number)
        if key in self.arrived or key in self.coming:
            return
        plan = self.plans[at]
        message = plan.messages[number]
        if len(message.values) == 1:
            array = self.pool.take(plan, message.values[0])
            self.values[at, message.values[0]] = array
            block = _bytes(array)
        else:
            block = np.empty(plan.nbytes(message), np.uint8)
        source = self.peers[plan.phases[message.source].rank]
        what = self._what(at, message)
        self.coming[key] = (self.here.receive(block, source, self.tags[at] + number, what), block)

    def _wait(self, at: int, number: int) -> None:
        """Waits until a message is there."""
        if (at, number) in self.arrived:
            return
        pending, block = self.coming.pop((at, number))
        pending.over()
        self.arrived.add((at, number))
        plan = self.plans[at]
        values = plan.messages[number].values
        begin = 0
        for value in values if len(values) > 1 else ():
            array = self.values[at, value] = self.pool.take(plan, value)
            _bytes(array)[:] = block[begin : begin + array.nbytes]
            begin += array.nbytes

    def _send(self, at: int, number: int, message: Message) -> None:
        arrays = [_bytes(self.values[at, value]) for value in message.values]
        alone = len(arrays) == 1
        block = arrays[0] if alone else np.concatenate(arrays)
        tag, what = self.tags[at] + number, self._what(at, message)
        sent = self.here.send(block, self.peers[message.rank], tag, what)
        kept = [(at, value) for value in message.values] if alone else []
        for key in kept:
            self.uses[key] += 1
        self.sent.append(_Sent(sent, kept))

    def _collect(self) -> None:
        """Takes back the memory of messages that have been sent."""
        left = []
        for one in self.sent:
            if not one.message.done():
                left.append(one)
                continue
            one.message.over()
            for key in one.values:
                self.uses[key] -= 1
                self._free(*key)
        self.sent = left

    def _free(self, at: int, value: int) -> None:
        if not self.uses[at, value] and (at, value) in self.values:
            self.pool.give(self.plans[at], value, self.values.pop((at, value)))

    def _what(self, at: int, message: Message) -> str:
        """What is sent, for messages of ranks that wait for it."""
        plan = self.plans[at]
        name = plan.values[message.values[0]].name
        return f"{name} of stage {plan.phases[message.source].stage}, micro-batch {at}"


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)
