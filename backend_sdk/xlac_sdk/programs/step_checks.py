"""Checks the steps of a program in order: arguments, bounds, and reads of memory that was not
written.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from heapq import heappop, heappush

from xlac_sdk.dims import Dim, evaluate, volume
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.extent import extent
from xlac_sdk.kernel_ir.kernel import Access
from xlac_sdk.programs.exchange_checks import ExchangeChecks
from xlac_sdk.programs.program import (
    Argument,
    Branch,
    Call,
    Case,
    Choice,
    CollectiveDone,
    CollectiveStart,
    Copy,
    Launch,
    Program,
    Repeat,
    Role,
    Slot,
    Stamp,
    Step,
    While,
)
from xlac_sdk.programs.slot_bytes import Life, byte_range, first_byte
from xlac_sdk.source import VerifyError
from xlac_sdk.support.counts import number_of


class StepChecks:
    """Walks the steps once, in order, with a clock and given values of the program's sizes.

    Where sizes choose between steps, the walk takes the steps of `case`, or else those for any
    sizes.
    """

    def __init__(
        self, program: Program, sizes: Mapping[str, int], case: Case | None = None
    ) -> None:
        self.program, self.slots, self.sizes, self.case = program, set(program.slots), sizes, case
        self.now = 0
        self.lives: dict[Slot, Life] = {}
        self.written: set[Slot] = set()
        self.counts: dict[str, int] = {}
        # for each open loop: slots whose first use in it is a read
        self.first_reads: list[set[Slot]] = []
        self.seen: list[set[Slot]] = []
        self.pieces: list[set[Slot]] = []
        self.open: list[str] = []  # the counters of open loops; temporarily empty
        self.exchanges = ExchangeChecks(program)

    def known(self, size: Dim) -> int:
        """A size, at the values of this walk."""
        return evaluate(size, self.sizes)

    def run(self) -> None:
        """Walks all steps, then compares slots that are live at the same time. Raises
        VerifyError.
        """
        self.steps(self.program.steps)
        self.exchanges.ended("the program")
        live = [s for s in self.lives if s.role is Role.TEMPORARY and s.nbytes]
        live.sort(key=lambda s: self.lives[s].first)
        held: list[Slot] = []  # live slots, disjoint, sorted by offset
        ends: list[tuple[int, int, Slot]] = []  # when each of them dies, soonest first
        for number, one in enumerate(live):
            while ends and ends[0][0] < self.lives[one].first:
                gone = heappop(ends)[2]
                del held[bisect_left(held, gone.offset, key=first_byte)]
            at = bisect_left(held, one.offset, key=first_byte)
            # a slot that ends before a neighbour begins cannot overlap anything behind that
            # neighbour
            for other in held[max(0, at - 1) : at + 1]:
                self.apart(other, one)
            held.insert(at, one)
            heappush(ends, (self.lives[one].last, number, one))

    def apart(self, one: Slot, other: Slot) -> None:
        """Checks two temporaries that are live at the same step."""
        if one.offset < other.offset + other.nbytes and other.offset < one.offset + one.nbytes:
            a, b = self.lives[one], self.lives[other]
            raise VerifyError(
                f"slots {one.label} ({byte_range(one)}, live from step {a.first} to {a.last}) and "
                f"{other.label} "
                f"({byte_range(other)}, live from step {b.first} to {b.last}) share memory while "
                "both are live"
            )

    # ---- steps -------------------------------------------------------------------------------

    def steps(self, steps: tuple[Step, ...]) -> None:
        """Walks steps in order."""
        for step in steps:
            self.now += 1
            match step:
                case Launch():
                    self.launch(step)
                case Copy():
                    self.copy(step)
                case Repeat(counter=counter, count=count, body=body):
                    if counter in self.counts:
                        raise VerifyError(f"counter '{counter}' is taken by a loop around")
                    self.counts[counter] = self.known(count)
                    self.loop((body,), counter)
                    del self.counts[counter]
                case While(condition=condition, flag=flag, body=body, alike=alike):
                    self.exchanges.may_be_in((*condition, *body), alike)
                    self.loop((condition, flag, body), "")
                case Branch(index=index, branches=branches, alike=alike):
                    self.touch(index, 1, reads=True, writes=False, who="a branch")
                    before, after = set(self.written), set(self.written)
                    for branch in branches:
                        self.exchanges.may_be_in(branch, alike)
                        self.written = set(before)
                        self.steps(branch)
                        self.exchanges.ended("a branch")
                        after |= self.written
                    self.written = after
                case Choice(cases=cases, otherwise=otherwise):
                    self.steps(next((case.steps for case in cases if case is self.case), otherwise))
                case Stamp(log=log):
                    if log.slot.dtype is not DType.I64:
                        raise VerifyError(
                            f"the log {log.slot.label} of a stamp is {log.slot.dtype}, not i64"
                        )
                    self.touch(
                        log,
                        log.slot.size - self.known(log.offset),
                        reads=False,
                        writes=True,
                        who="a stamp",
                    )
                case CollectiveStart() | CollectiveDone():
                    self.exchanges.step(step, self)
                case Call(name=name, arguments=arguments, shapes=shapes):
                    for number, argument in enumerate(arguments):
                        count = self.known(volume(shapes[number])) if shapes else 0
                        self.touch(
                            argument,
                            count,
                            reads=False,
                            writes=True,
                            who=f"call {name}",
                            foreign=True,
                        )

    def copy(self, step: Copy) -> None:
        """Checks a copy: its types, what it reads and what it writes."""
        target, source, many = step.target, step.source, self.known(step.count)
        if target.slot.dtype is not source.slot.dtype:
            raise VerifyError(
                f"a copy from {source.slot.label} to {target.slot.label} changes the dtype"
            )
        self.touch(source, many, reads=True, writes=False, who="a copy")
        self.touch(target, many, reads=False, writes=True, who="a copy")
        self.disjoint("a copy", [(source, many, False), (target, many, True)])

    def loop(self, parts: tuple[tuple[Step, ...] | Argument, ...], counter: str) -> None:
        """Walks a loop; a slot that passes a value to the next iteration is live throughout the
        loop.
        """
        start = self.now
        before = set(self.lives)
        self.seen.append(set())
        self.first_reads.append(set())
        self.pieces.append(set())
        self.open.append(counter)
        for part in parts:
            if isinstance(part, Argument):
                self.now += 1
                self.touch(part, 1, reads=True, writes=False, who="a while")
            else:
                self.steps(part)
        self.now += 1
        self.exchanges.ended("a loop")
        self.open.pop()
        used, reads, pieces = self.seen.pop(), self.first_reads.pop(), self.pieces.pop()
        for slot in used:
            life = self.lives[slot]
            if slot in before or slot in reads or slot in pieces:
                life.first, life.last = min(life.first, start), self.now
        if self.seen:
            self.seen[-1] |= used

    def launch(self, step: Launch) -> None:
        """Checks a launch: its arguments against the kernel's parameters, its reads and
        its writes.
        """
        kernel = step.kernel
        if len(step.arguments) != len(kernel.parameters):
            raise VerifyError(
                f"kernel {kernel.name} takes {number_of(len(kernel.parameters), 'buffer')}, not "
                f"{len(step.arguments)}"
            )
        if len(step.sizes) != len(kernel.sizes):
            raise VerifyError(
                f"kernel {kernel.name} takes {number_of(len(kernel.sizes), 'size')}, "
                f"not {len(step.sizes)}"
            )
        names = {
            v.name: self.known(value) for v, value in zip(kernel.sizes, step.sizes, strict=True)
        }
        ranges = []
        for buffer, argument in zip(kernel.parameters, step.arguments, strict=True):
            if buffer.dtype is not argument.slot.dtype:
                raise VerifyError(
                    f"kernel {kernel.name}: '{buffer.name}' holds {buffer.dtype}, "
                    f"{argument.slot.label} {argument.slot.dtype}"
                )
            count = buffer.size if isinstance(buffer.size, int) else extent(buffer.size, names)
            reads, writes = (
                buffer.access in (Access.READ, Access.UPDATE),
                buffer.access is not Access.READ,
            )
            self.touch(argument, count, reads, writes, f"kernel {kernel.name}")
            ranges.append((argument, count, writes))
        self.disjoint(f"kernel {kernel.name}", ranges)

    def touch(
        self,
        argument: Argument,
        count: int,
        reads: bool,
        writes: bool,
        who: str,
        foreign: bool = False,
    ) -> None:
        """Checks one argument and records a use of its slot."""
        slot = argument.slot
        self.exchanges.touched(slot, who, writes)
        if slot not in self.slots:
            raise VerifyError(f"{who} uses {slot.label}, which the program does not declare")
        low = high = self.known(argument.offset)
        size = self.known(slot.elements)
        for counter, stride in argument.strides:
            if counter not in self.counts:
                raise VerifyError(
                    f"{who} moves {slot.label} with '{counter}', which no loop around counts"
                )
            if not self.counts[counter]:
                return  # the loop around has no iterations
            reach = self.known(stride) * (self.counts[counter] - 1)
            low, high = low + min(0, reach), high + max(0, reach)
        if low < 0 or high + count > size:
            raise VerifyError(
                f"{who} reaches elements {low} to {high + count} of {slot.label}, which has {size}"
            )
        if writes and not foreign and slot.role in (Role.INPUT, Role.CONSTANT):
            raise VerifyError(f"{who} writes {slot.label}, which is only read")
        if (
            reads
            and count
            and slot.role in (Role.TEMPORARY, Role.OUTPUT)
            and slot not in self.written
        ):
            raise VerifyError(
                f"{who} {'updates' if writes else 'reads'} {slot.label} before anything was "
                "written there"
            )
        if writes:
            self.written.add(slot)
        life = self.lives.setdefault(slot, Life(self.now, self.now))
        life.last = self.now
        for depth, seen in enumerate(self.seen):
            if slot not in seen and reads:
                self.first_reads[depth].add(slot)
            seen.add(slot)
        if writes:
            moving = {counter for counter, _ in argument.strides}
            # in a loop whose counter does not offset it, each iteration writes the same range
            for counter, pieces in zip(self.open, self.pieces, strict=True):
                if counter in moving:
                    pieces.add(slot)

    def disjoint(self, who: str, ranges: list[tuple[Argument, int, bool]]) -> None:
        """No written argument may overlap another; arguments with different strides are not
        compared.
        """
        for number, (one, count, writes) in enumerate(ranges):
            for other, more, also in ranges[number + 1 :]:
                if (
                    not (writes or also)
                    or one.slot is not other.slot
                    or one.strides != other.strides
                ):
                    continue
                start, also_start = self.known(one.offset), self.known(other.offset)
                if start < also_start + more and also_start < start + count:
                    raise VerifyError(f"{who} is given {one.slot.label} twice, and writes it")
