"""The steps of a stage of a pipeline, for all micro-batches of a call: the phases of a rank, in
order, and its messages with other stages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xlac.ir.dims import static
from xlac.ir.types import Type
from xlac.memory.arena import LiveRange, pack
from xlac.pipelining.plan import Phase, PhasePlan
from xlac.pipelining.schedule import PipelineOrder, Task
from xlac.pipelining.timetable import (
    Event,
    MessageEvent,
    OutputEvent,
    PhaseEvent,
    StateEvent,
    ValueOf,
    timetable,
)
from xlac.ranks.stage_program import ALIGN, StageProgram, StagePrograms
from xlac_sdk.programs.program import Argument, Copy, Role, Slot, Step
from xlac_sdk.programs.rewrite import with_arguments, with_steps
from xlac_sdk.programs.steps import CollectiveDone, CollectiveStart, RankExchange
from xlac_sdk.source import Origin


@dataclass(frozen=True, eq=False)
class PipelinedFunction:
    """A function of the API: the micro-batches of a call, in phases, and their order; `rows` are
    their numbers among those of callers. `flag` is the output of the last one that says whether the
    state was changed, if there is one.
    """

    name: str
    plans: Sequence[PhasePlan]
    order: PipelineOrder
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    rows: tuple[int, ...]
    flag: str = ""


def stage_program(
    shared: StagePrograms, stage: int, functions: Sequence[PipelinedFunction]
) -> StageProgram:
    """The program of a stage, with the steps of each function."""
    program = StageProgram(shared, stage)
    for function in functions:
        program.slots |= dict.fromkeys((*function.inputs, *function.outputs))
        ranks = function.order.ranks
        events = timetable(function.plans, ranks, stage)
        writer = StageSteps(program, function, events, ranks[stage])
        program.steps[function.name] = tuple(writer.steps())
        program.arena_bytes = max(program.arena_bytes, writer.arena_bytes)
    return program


class StageSteps:
    """Writes the steps of a function: first the places of values that pass between phases, by when
    each is used first and last.
    """

    def __init__(
        self,
        program: StageProgram,
        function: PipelinedFunction,
        events: Sequence[Event],
        tasks: Sequence[Task],
    ) -> None:
        self.program, self.function, self.events = program, function, events
        own = [program.phase(self._phase(task)) for task in tasks]
        room = max((one.arena_bytes for one in own), default=0)
        self.flag: Slot | None = None
        if function.flag:
            kind = function.plans[-1].outputs[function.flag]
            type = function.plans[-1].values[kind].node.type
            flag = Slot("", "changed", type.dtype, (), Role.TEMPORARY, 0, ALIGN)
            self.flag = program.flags[function.name] = program.added(flag)
        self.base = ALIGN  # of the temporaries of phases; the flag is before them
        first = self.base + -(-room // ALIGN) * ALIGN
        spans = self._spans()
        keys = list(spans)
        layout = pack([LiveRange(self._type(k).nbytes, *spans[k]) for k in keys])
        self.arena_bytes = first + layout.nbytes
        self.values = {
            key: program.added(self._slot(key, first + offset))
            for key, offset in zip(keys, layout.offsets, strict=True)
        }

    def steps(self) -> Iterator[Step]:
        """The steps of all events."""
        started: dict[tuple[Any, ...], RankExchange] = {}
        for event in self.events:
            match event:
                case MessageEvent():
                    yield self._message(event, started)
                case PhaseEvent(task):
                    yield from self._run(task)
                case StateEvent(state, value):
                    yield self._copied(Argument(self.program.state[state]), value)
                case OutputEvent(output, value):
                    yield from self._given(output, value)

    # ---- values ------------------------------------------------------------------------------

    def _phase(self, task: Task) -> Phase:
        at, number = task
        return self.function.plans[at].phases[number]

    def _type(self, key: ValueOf) -> Type:
        at, number = key
        return self.function.plans[at].values[number].node.type

    def _slot(self, key: ValueOf, offset: int) -> Slot:
        type, (at, number) = self._type(key), key
        name = self.function.plans[at].values[number].name
        shape = static(type.shape)
        symbol = f"value{number}_{at}"
        return Slot("", symbol, type.dtype, shape, Role.TEMPORARY, offset, ALIGN, Origin(name))

    def _spans(self) -> dict[ValueOf, tuple[int, int]]:
        """The first and the last event that uses each value."""
        spans: dict[ValueOf, tuple[int, int]] = {}
        for now, event in enumerate(self.events):
            for key in self._used(event):
                spans[key] = (spans.get(key, (now, now))[0], now)
        return spans

    def _used(self, event: Event) -> Iterator[ValueOf]:
        match event:
            case MessageEvent(message=message):
                yield message.value
            case PhaseEvent(task):
                phase = self._phase(task)
                for value in (*phase.reads.values(), *phase.writes.values()):
                    yield task[0], value
            case StateEvent(value=value) | OutputEvent(value=value):
                yield value

    # ---- steps -------------------------------------------------------------------------------

    def _message(self, event: MessageEvent, started: dict[tuple[Any, ...], RankExchange]) -> Step:
        message, shared = event.message, self.program.shared
        slot = self.values[message.value]
        sends = event.what in ("send", "sent")
        key = (message, sends)
        if event.what in ("send", "receive"):
            other = message.target if sends else message.source
            started[key] = RankExchange(
                shared.exchanges, event.what, (shared.axis,), root=other, tag=message.tag
            )
            shared.exchanges += 1
            count = (slot.size, 0) if sends else (0, slot.size)
            assert slot.origin is not None
            name = f"{slot.origin.name}, micro-batch {message.value[0]}"
            at = Argument(slot)
            return CollectiveStart(started[key], at, at, *count, origin=Origin(name))
        return CollectiveDone(started[key], Argument(slot), Argument(slot))

    def _run(self, task: Task) -> Iterator[Step]:
        """The steps of a phase, over the slots of the stage."""
        at, _ = task
        phase = self._phase(task)
        program = self.program.phase(phase)
        given = {slot.name: slot for slot in self.function.inputs}
        places: dict[Slot, Argument] = {}
        for slot in program.slots:
            match slot.role:
                case Role.INPUT if slot.name in phase.reads:
                    places[slot] = Argument(self.values[at, phase.reads[slot.name]])
                case Role.INPUT if slot.name in self.program.shared.numbers:
                    number = np.array(self.function.rows[at], slot.dtype.numpy)
                    places[slot] = Argument(self.program.constant(slot, number))
                case Role.INPUT:
                    places[slot] = self._part(given[slot.name], at, slot.size)
                case Role.OUTPUT:
                    places[slot] = Argument(self.values[at, phase.writes[slot.name]])
                case Role.STATE if slot.name:
                    places[slot] = Argument(self.program.state[slot.name])
                case Role.STATE:
                    places[slot] = Argument(self.program.scratch(slot))
                case Role.CONSTANT:
                    data = program.constants[slot.symbol]
                    places[slot] = Argument(self.program.constant(slot, data))
                case Role.TEMPORARY:
                    moved = replace(slot, offset=slot.offset + self.base)
                    places[slot] = Argument(self.program.added(moved))

        def placed(argument: Argument) -> Argument:
            place = places[argument.slot]
            return replace(argument, slot=place.slot, offset=argument.offset + place.offset)

        yield from with_steps(with_arguments(program.steps, placed), self._numbering())

    def _numbering(self) -> Callable[[Step], tuple[Step, ...]]:
        """Gives the collectives of a phase numbers of their own among those of all stages."""
        shared = self.program.shared
        numbers: dict[int, int] = {}

        def visit(step: Step) -> tuple[Step, ...]:
            if not isinstance(step, CollectiveStart | CollectiveDone):
                return (step,)
            old = step.exchange.number
            if old not in numbers:
                numbers[old] = shared.exchanges
                shared.exchanges += 1
            return (replace(step, exchange=replace(step.exchange, number=numbers[old])),)

        return visit

    def _part(self, slot: Slot, at: int, size: int) -> Argument:
        """The part of a micro-batch of what a caller gives, or gets."""
        return Argument(slot, self.function.rows[at] * size if slot.size != size else 0)

    def _given(self, output: str, value: ValueOf) -> Iterator[Step]:
        """A copy to the caller, or of what says whether the state was changed."""
        last = value[0] == len(self.function.plans) - 1
        if output == self.function.flag and last and self.flag is not None:
            yield self._copied(Argument(self.flag), value)
        slot = next((slot for slot in self.function.outputs if slot.name == output), None)
        if slot is not None:
            yield self._copied(self._part(slot, value[0], self.values[value].size), value)

    def _copied(self, target: Argument, value: ValueOf) -> Copy:
        slot = self.values[value]
        return Copy(target, Argument(slot), slot.size)
