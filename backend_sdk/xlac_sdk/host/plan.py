"""Launch plans: the steps of a program for one set of sizes as a list of calls, with every address
resolved.

A plan is made once for each set of sizes and cached (`LaunchPlans`). Loops of known length are
unrolled in it, unless it becomes long; control flow that depends on numbers in memory (`while`,
branches, stamps) is one call that waits for the device, reads them, and runs a plan of its own.
Launches and copies that follow each other may become one call, on a device that records them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from xlac_sdk.device import Device, MemoryPlace
from xlac_sdk.dims import evaluate
from xlac_sdk.dtypes import DType
from xlac_sdk.host import stopping
from xlac_sdk.host.device_memory import read, stamp
from xlac_sdk.kernel_ir.extent import extent
from xlac_sdk.lowering.stop_checks import changes_state
from xlac_sdk.programs.program import (
    Argument,
    Branch,
    Call,
    Choice,
    Copy,
    Launch,
    Program,
    Repeat,
    Slot,
    Stamp,
    Step,
    While,
    touched,
)
from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.target import MOST_ELEMENTS

UNROLLED = 1 << 12  # the most calls of an unrolled loop
KEPT = 1 << 15  # the most calls in all cached plans of a program
# values of enclosing loops' counters, and of the call's sizes, by name
Counters = Mapping[str, int]
Planned = Callable[[], object]
# a call, and whether it is a launch or a copy with bound arguments: the same work for the device
# whenever it is made
_Call = tuple[Planned, bool]
NOTHING: Mapping[Slot, MemoryPlace] = {}


def run(calls: Sequence[Planned]) -> None:
    """Makes the calls in order; raises when the caller's time limit is exceeded."""
    check = stopping.check
    for call in calls:
        check()
        call()


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """The calls before the first that changes the program's state, and the others."""

    before: tuple[Planned, ...]
    after: tuple[Planned, ...]


class LaunchPlanner:
    """Plans steps on a device. `places` has the places of slots; `lent` those of the current call's
    arrays: steps that use them are resolved when they run.
    """

    def __init__(
        self,
        device: Device,
        places: Mapping[Slot, MemoryPlace],
        lent: Mapping[Slot, MemoryPlace] = NOTHING,
    ) -> None:
        self.device, self.places, self.lent = device, places, lent

    def program(self, program: Program, counters: Counters) -> LaunchPlan:
        """The plan of a program's steps for the sizes of a call."""
        first = next(
            (n for n, step in enumerate(program.steps) if changes_state(step)), len(program.steps)
        )
        return LaunchPlan(
            self.steps(program.steps[:first], counters), self.steps(program.steps[first:], counters)
        )

    def place(self, argument: Argument, counters: Counters) -> MemoryPlace:
        """The place of an argument."""
        moved = evaluate(argument.offset, counters)
        moved += sum(
            counters[name] * evaluate(stride, counters) for name, stride in argument.strides
        )
        base = self.lent.get(argument.slot) or self.places[argument.slot]
        return base.plus(moved * argument.slot.dtype.nbytes)

    def steps(self, steps: Sequence[Step], counters: Counters) -> tuple[Planned, ...]:
        """The calls that execute steps."""
        made: list[Planned] = []
        for bound, calls in groupby(self._calls(steps, counters), key=lambda call: call[1]):
            planned = [call for call, _ in calls]
            made += self.device.recorded(planned) if bound else planned
        return tuple(made)

    def _calls(self, steps: Sequence[Step], counters: Counters) -> Iterator[_Call]:
        """The call of each step, or the calls of loops and choices."""
        for step in steps:
            if isinstance(step, Launch | Copy | Call) and self._uses_lent(step):
                yield partial(self._at_once, step, counters), False
                continue
            match step:
                case Launch(kernel=kernel):
                    given = _sizes(step, counters)
                    yield self.device.prepare(kernel, self._all(step, counters), given), True
                case Copy(target=target, source=source, count=count):
                    nbytes = evaluate(count, counters) * source.slot.dtype.nbytes
                    if nbytes:
                        ends = self.place(target, counters), self.place(source, counters)
                        yield partial(self.device.copy, *ends, nbytes), True
                case Repeat():
                    yield from self._repeat(step, counters)
                case While():
                    yield self._while(step, counters), False
                case Branch():
                    yield self._branch(step, counters), False
                case Choice():
                    yield from self._calls(step.path(counters), counters)
                case Stamp(log=log):
                    start, offset = self.place(log, counters), evaluate(log.offset, counters)
                    yield partial(stamp, self.device, step, start, offset), False
                case Call():
                    call = partial(self.device.call, step.at(counters), self._all(step, counters))
                    yield call, False

    def _uses_lent(self, step: Step) -> bool:
        return bool(self.lent) and not self.lent.keys().isdisjoint(touched((step,)))

    def _at_once(self, step: Launch | Copy | Call, counters: Counters) -> None:
        """Executes a step on arrays of the current call."""
        match step:
            case Launch(kernel=kernel):
                given = _sizes(step, counters)
                self.device.launch(kernel, self._all(step, counters), given)
            case Copy(target=target, source=source, count=count):
                nbytes = evaluate(count, counters) * source.slot.dtype.nbytes
                if nbytes:
                    ends = self.place(target, counters), self.place(source, counters)
                    self.device.copy(*ends, nbytes)
            case Call():
                self.device.call(step.at(counters), self._all(step, counters))

    def _all(self, step: Launch | Call, counters: Counters) -> tuple[MemoryPlace, ...]:
        return tuple(self.place(argument, counters) for argument in step.arguments)

    def _repeat(self, step: Repeat, counters: Counters) -> Iterator[_Call]:
        """A loop of known length: unrolled or, if that is long, one call that plans each
        iteration.
        """
        count, counter = evaluate(step.count, counters), step.counter
        if count * length(step.body, counters) <= UNROLLED:
            for number in range(count):
                yield from self._calls(step.body, {**counters, counter: number})
            return

        def turns() -> None:
            for number in range(count):
                run(self.steps(step.body, {**counters, counter: number}))

        yield turns, False

    def _while(self, step: While, counters: Counters) -> Planned:
        condition = self.steps(step.condition, counters)
        body = self.steps(step.body, counters)
        flag, dtype = self.place(step.flag, counters), step.flag.slot.dtype

        def turns() -> None:
            run(condition)
            while read(self.device, flag, dtype):
                run(body)
                run(condition)

        return turns

    def _branch(self, step: Branch, counters: Counters) -> Planned:
        index, planned = self.place(step.index, counters), dict[int, tuple[Planned, ...]]()

        def chosen() -> None:
            number = read(self.device, index, step.index.slot.dtype)
            number = number if 0 <= number < len(step.branches) else len(step.branches) - 1
            if number not in planned:
                planned[number] = self.steps(step.branches[number], counters)
            run(planned[number])

        return chosen


def _sizes(step: Launch, counters: Counters) -> tuple[int, ...]:
    """The sizes of a launch. Raises UnsupportedError for one, or a buffer, that is too large for a
    kernel whose indices are i32.
    """
    given = tuple(evaluate(size, counters) for size in step.sizes)
    variables = step.kernel.sizes
    if not variables or variables[0].dtype is not DType.I32:
        return given
    names = {var.name: size for var, size in zip(variables, given, strict=True)}
    counts = (extent(b.size, names) for b in step.kernel.parameters if not isinstance(b.size, int))
    most = max((*given, *counts))
    if most > MOST_ELEMENTS:
        problem = f"a size or a buffer of {most:,} elements, of {MOST_ELEMENTS:,} that 32-bit "
        problem += "indices reach"
        raise UnsupportedError(Diagnostic("XL5010", problem, hint="smaller inputs"))
    return given


def length(steps: Sequence[Step], counters: Counters) -> int:
    """An upper bound for the number of calls in a plan of these steps."""
    count = 0
    for step in steps:
        match step:
            case Repeat(count=times, body=body):
                # counts do not depend on loop counters
                count += evaluate(times, counters) * length(body, counters)
            case Choice():
                count += length(step.path(counters), counters)
            case _:
                count += 1
    return count


class LaunchPlans:
    """The plans of a program, by the sizes of calls; the oldest are dropped when there are too
    many.
    """

    def __init__(self, program: Program, planner: LaunchPlanner) -> None:
        self.program, self.planner = program, planner
        self._known: dict[tuple[int, ...], LaunchPlan] = {}
        self._calls = 0

    def of(self, sizes: Counters) -> LaunchPlan:
        """The plan for a call of these sizes, by name."""
        key = tuple(sizes.values())
        plan = self._known.get(key)
        if plan is None:
            plan = self.planner.program(self.program, sizes)
            self._calls += _calls(plan)
            while self._known and self._calls > KEPT:
                self._calls -= _calls(self._known.pop(next(iter(self._known))))
            self._known[key] = plan
        return plan

    def clear(self) -> None:
        """Drops every plan."""
        self._known.clear()
        self._calls = 0


def _calls(plan: LaunchPlan) -> int:
    return 1 + len(plan.before) + len(plan.after)
