"""Checks the collectives of a program: one order on all ranks, and buffers that nobody touches
while they are exchanged.
"""

from __future__ import annotations

from typing import Protocol

from xlac_sdk.dims import Dim
from xlac_sdk.programs.program import Argument, Program, Slot, exchanges
from xlac_sdk.programs.steps import Collective, CollectiveDone, CollectiveStart, Step
from xlac_sdk.source import VerifyError

MOVING = ("all_gather", "all_to_all", "permute", "broadcast")
MESSAGES = ("send", "receive")
KINDS = ("all_reduce", "reduce_scatter", *MOVING, "axis_index", *MESSAGES)
COMBINE = ("add", "mul", "max", "min")
MESH = "mesh"
"""The key of a program's facts with the axes of its mesh and their sizes: [["data", 2], …]."""


class Touching(Protocol):
    """A walk over steps that notes which memory they use."""

    def touch(self, argument: Argument, count: int, reads: bool, writes: bool, who: str) -> None:
        """Notes a use of memory."""

    def known(self, size: Dim) -> int:
        """The value of a size."""


class ExchangeChecks:
    """The collectives that a walk has started and not done."""

    def __init__(self, program: Program) -> None:
        self.axes = [name for name, _ in program.facts.get(MESH, ())]
        self.open: dict[int, CollectiveStart] = {}
        self.busy: dict[Slot, int] = {}
        self.sent: dict[Slot, set[int]] = {}  # messages under way, by what they send
        self.last = -1

    def step(self, step: Collective, walk: Touching) -> None:
        """Checks a start or a done. Raises VerifyError."""
        number, kind = step.exchange.number, step.exchange.kind
        who = f"{kind} {number}"
        if isinstance(step, CollectiveDone):
            start = self.open.pop(number, None)
            if start is None or (start.source, start.target) != (step.source, step.target):
                raise VerifyError(f"{who} is done, and was not started so")
            self.busy = {slot: one for slot, one in self.busy.items() if one != number}
            self._sent(start.source.slot).discard(number)
            walk.touch(start.source, walk.known(start.sent), False, False, who)
            if kind != "send":
                walk.touch(start.target, walk.known(start.received), False, True, who)
            return
        self._described(step, who)
        if number in self.open:
            raise VerifyError(f"{who} is started twice")
        if number < self.last:
            raise VerifyError(f"{who} starts after number {self.last}: ranks have one order")
        if kind != "receive":
            walk.touch(step.source, walk.known(step.sent), kind != "axis_index", False, who)
        if kind != "send":
            walk.touch(step.target, walk.known(step.received), False, True, who)
        self.last, self.open[number] = number, step
        if kind == "send":
            self._sent(step.source.slot).add(number)
        else:
            self.busy |= {step.source.slot: number, step.target.slot: number}

    def _described(self, step: CollectiveStart, who: str) -> None:
        exchange, source, target = step.exchange, step.source.slot, step.target.slot
        if exchange.kind not in KINDS or exchange.combine not in COMBINE:
            raise VerifyError(f"{who} by {exchange.combine} is no collective")
        strange = [axis for axis in exchange.axes if axis not in self.axes]
        if strange or not exchange.axes:
            raise VerifyError(f"{who} is over axes {exchange.axes} of a mesh {self.axes}")
        alone = exchange.kind == "axis_index" or exchange.kind in MESSAGES
        if not alone and source is target:
            raise VerifyError(f"{who} receives where it sends, {source.label}")
        if exchange.kind in MESSAGES and step.source != step.target:
            raise VerifyError(f"{who} has another source than target, {target.label}")
        if source.dtype is not target.dtype:
            raise VerifyError(f"{who} changes {source.dtype} to {target.dtype}")

    def _sent(self, slot: Slot) -> set[int]:
        return self.sent.setdefault(slot, set())

    def touched(self, slot: Slot, who: str, writes: bool = True) -> None:
        """Raises VerifyError for a slot that is being exchanged, or is written while it is sent."""
        if writes and self.sent.get(slot):
            number = min(self.sent[slot])
            raise VerifyError(f"{who} writes {slot.label} while message {number} sends it")
        if slot in self.busy:
            number = self.busy[slot]
            raise VerifyError(f"{who} touches {slot.label} while collective {number} is under way")

    def may_be_in(self, steps: tuple[Step, ...], alike: bool) -> None:
        """Raises VerifyError for a collective where ranks may take different ways, and for one that
        is under way where a branch or a loop begins.
        """
        if not (inside := exchanges(steps)):
            return
        self.ended("what comes before a branch or a loop")
        if not alike:
            number = inside[0].exchange.number
            raise VerifyError(f"collective {number} is inside a branch or a loop of unknown length")

    def ended(self, where: str) -> None:
        """Raises VerifyError for a collective that was not done."""
        if self.open:
            raise VerifyError(f"collective {min(self.open)} is not done at the end of {where}")
        self.last = -1 if where == "a loop" else self.last
