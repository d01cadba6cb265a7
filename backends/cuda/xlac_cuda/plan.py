"""A program's steps for one set of sizes: counted loops unrolled, cases chosen, every address and
grid known.

Only the addresses of the call's arrays remain: a `DeviceAddress` refers to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xlac_cuda.device.launch import KernelEntry
from xlac_sdk.dims import evaluate
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.programs.program import (
    Argument,
    Branch,
    Call,
    Choice,
    CollectiveDone,
    CollectiveStart,
    Copy,
    Launch,
    Repeat,
    Slot,
    Stamp,
    Step,
    While,
)

# counters of the loops around a step, and the sizes of the call, by name
Counters = Mapping[str, int]
Arrays = Sequence[int]  # addresses of a call's inputs, then of its outputs


@dataclass(frozen=True, slots=True)
class DeviceAddress:
    """An address: `offset` bytes into one of the call's arrays, or, if `array` is -1, `offset`
    itself.
    """

    array: int
    offset: int

    def at(self, arrays: Arrays) -> int:
        """The address, given the arrays of a call."""
        return self.offset if self.array < 0 else arrays[self.array] + self.offset


def _touched(*places: DeviceAddress) -> tuple[int, ...]:
    return tuple(dict.fromkeys(place.array for place in places if place.array >= 0))


@dataclass(frozen=True, slots=True)
class KernelRun:
    """A kernel on a grid."""

    entry: KernelEntry
    blocks: int
    places: tuple[DeviceAddress, ...]
    sizes: tuple[int, ...]
    step: Launch

    def packed(self, arrays: Arrays) -> bytes:
        """The kernel's packed arguments, given the arrays of a call."""
        return self.entry.packed([place.at(arrays) for place in self.places], self.sizes)

    @property
    def touched(self) -> tuple[int, ...]:
        """The numbers of the call's arrays that it reads or writes, whose addresses change between
        calls.
        """
        return _touched(*self.places)


@dataclass(frozen=True, slots=True)
class Move:
    """A copy on the device, of at least a byte."""

    target: DeviceAddress
    source: DeviceAddress
    nbytes: int

    @property
    def touched(self) -> tuple[int, ...]:
        """The numbers of the call's arrays that it reads or writes."""
        return _touched(self.target, self.source)


@dataclass(frozen=True, slots=True)
class Whole:
    """A library operation. The step has known sizes."""

    step: Call
    places: tuple[DeviceAddress, ...]

    @property
    def touched(self) -> tuple[int, ...]:
        """The numbers of the call's arrays that it reads or writes."""
        return _touched(*self.places)


@dataclass(frozen=True, slots=True)
class DeviceLoop:
    """`loop: condition; if (!*flag) break; body`"""

    condition: tuple[Action, ...]
    flag: DeviceAddress
    body: tuple[Action, ...]

    @property
    def touched(self) -> tuple[int, ...]:
        """The numbers of the call's arrays that it reads or writes."""
        return _of_all((*self.condition, *self.body), self.flag)


@dataclass(frozen=True, slots=True)
class Switch:
    """The branch whose number is the i32 at `index`, or else the last."""

    index: DeviceAddress
    branches: tuple[tuple[Action, ...], ...]

    @property
    def touched(self) -> tuple[int, ...]:
        """The numbers of the call's arrays that it reads or writes."""
        return _of_all([one for branch in self.branches for one in branch], self.index)


@dataclass(frozen=True, slots=True)
class Mark:
    """Appends the time to a log of `room` numbers; code 0 clears it first."""

    log: DeviceAddress
    room: int
    code: int

    @property
    def touched(self) -> tuple[int, ...]:
        """The numbers of the call's arrays that it reads or writes."""
        return _touched(self.log)


@dataclass(frozen=True, slots=True)
class ExchangeStart:
    """Begins a collective among ranks, by its number."""

    number: int
    source: DeviceAddress
    target: DeviceAddress

    @property
    def touched(self) -> tuple[int, ...]:
        """The numbers of the call's arrays that it reads or writes."""
        return _touched(self.source, self.target)


@dataclass(frozen=True, slots=True)
class ExchangeDone:
    """Waits for a collective, by its number."""

    number: int

    @property
    def touched(self) -> tuple[int, ...]:
        """None of the call's arrays."""
        return ()


Straight = KernelRun | Move | Whole
Exchange = ExchangeStart | ExchangeDone
Action = Straight | DeviceLoop | Switch | Mark | Exchange


def _of_all(actions: Iterable[Action], place: DeviceAddress) -> tuple[int, ...]:
    return tuple(
        dict.fromkeys(
            (*_touched(place), *(array for action in actions for array in action.touched))
        )
    )


@dataclass(frozen=True, slots=True)
class Planner:
    """The locations of slots: fixed addresses, or the numbers of the call's arrays."""

    fixed: Mapping[Slot, int]
    arrays: Mapping[Slot, int]
    entries: Mapping[Kernel, KernelEntry]

    def actions(self, steps: Sequence[Step], counters: Counters) -> Iterator[Action]:
        """The actions of some steps, in order."""
        for step in steps:
            match step:
                case Launch(kernel=kernel, arguments=arguments, sizes=sizes):
                    entry, given = (
                        self.entries[kernel],
                        tuple(evaluate(size, counters) for size in sizes),
                    )
                    blocks = entry.blocks(given)
                    if blocks:
                        yield KernelRun(
                            entry,
                            blocks,
                            tuple(self.place(a, counters) for a in arguments),
                            given,
                            step,
                        )
                case Copy(target=target, source=source, count=count):
                    nbytes = evaluate(count, counters) * source.slot.dtype.nbytes
                    if nbytes:
                        yield Move(
                            self.place(target, counters), self.place(source, counters), nbytes
                        )
                case Repeat(counter=counter, count=count, body=body):
                    for number in range(evaluate(count, counters)):
                        yield from self.actions(body, {**counters, counter: number})
                case Choice():
                    yield from self.actions(step.path(counters), counters)
                case While(condition=condition, flag=flag, body=body):
                    first, then = (
                        tuple(self.actions(condition, counters)),
                        tuple(self.actions(body, counters)),
                    )
                    yield DeviceLoop(first, self.place(flag, counters), then)
                case Branch(index=index, branches=branches):
                    cases = tuple(tuple(self.actions(branch, counters)) for branch in branches)
                    yield Switch(self.place(index, counters), cases)
                case Stamp(log=log, code=code, parts=parts):
                    # the part of the log for threads of a CPU
                    room = log.slot.size - evaluate(log.offset, counters) - parts
                    yield Mark(self.place(log, counters), room, code)
                case CollectiveStart(exchange=exchange, source=source, target=target):
                    places = self.place(source, counters), self.place(target, counters)
                    yield ExchangeStart(exchange.number, *places)
                case CollectiveDone(exchange=exchange):
                    yield ExchangeDone(exchange.number)
                case Call(arguments=arguments):
                    yield Whole(
                        step.at(counters), tuple(self.place(a, counters) for a in arguments)
                    )

    def place(self, argument: Argument, counters: Counters) -> DeviceAddress:
        """The address of an argument, for given counters."""
        moved = evaluate(argument.offset, counters)
        moved += sum(
            counters[name] * evaluate(stride, counters) for name, stride in argument.strides
        )
        moved *= argument.slot.dtype.nbytes
        number = self.arrays.get(argument.slot, -1)
        return DeviceAddress(number, moved if number >= 0 else self.fixed[argument.slot] + moved)


def count(steps: Sequence[Step], counters: Counters) -> int:
    """The number of actions, including those inside loops and branches."""
    total = 0
    for step in steps:
        match step:
            case Repeat(count=times, body=body):
                total += evaluate(times, counters) * count(body, counters)
            case Choice():
                total += count(step.path(counters), counters)
            case While(condition=condition, body=body):
                total += 1 + count(condition, counters) + count(body, counters)
            case Branch(branches=branches):
                total += 1 + sum(count(branch, counters) for branch in branches)
            case _:
                total += 1
    return total
