"""The order of a program's parts around collectives: what leads to one soonest comes first, each
starts as soon as its operand is there, and what waits for it comes after all that does not, so that
computation hides the messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

from xlac.ir.graph import Node


@dataclass(frozen=True, slots=True, eq=False)
class StepPart:
    """A part of a program: the values that it reads and makes, whether it is a collective, and
    whether what it makes is the same memory as what it reads.
    """

    reads: tuple[Node, ...]
    makes: tuple[Node, ...]
    collective: bool = False
    alias: bool = False


def hiding_order(parts: Sequence[StepPart]) -> Iterator[int]:
    """The numbers of the parts in an order that hides the collectives. Parts keep their order but
    for that.
    """
    return _InFlight(parts).ordered()


@dataclass
class _InFlight:
    """Parts by number while they are put in order: those that can run, and those that could, were
    it not for collectives that are under way.
    """

    parts: Sequence[StepPart]
    left: list[int] = field(init=False)  # the parts before each that have not run
    after: list[list[int]] = field(init=False)  # the parts that read what each makes
    until: list[float] = field(init=False)  # parts until the last collective that one leads to
    ready: list[tuple[float, int]] = field(init=False, default_factory=list)  # the fewest first
    waiting: list[int] = field(init=False, default_factory=list)
    started: dict[int, int] = field(init=False, default_factory=dict)  # when, of those under way
    collectives: int = field(init=False, default=0)  # that have started so far
    memory: dict[Node, set[int]] = field(init=False, default_factory=dict)  # and who uses a value

    def __post_init__(self) -> None:
        maker = {node: at for at, part in enumerate(self.parts) for node in part.makes}
        before = [{maker[n] for n in part.reads if n in maker} for part in self.parts]
        self.left = [len(numbers) for numbers in before]
        self.after = [[] for _ in self.parts]
        for at, numbers in enumerate(before):
            for number in numbers:
                self.after[number].append(at)
        self.until = [0.0 if part.collective else inf for part in self.parts]
        for at in reversed(range(len(self.parts))):
            if self.after[at] and self.until[at]:
                self.until[at] = 1 + max(self.until[reader] for reader in self.after[at])

    def ordered(self) -> Iterator[int]:
        """The parts in their new order."""
        self._sort(at for at, count in enumerate(self.left) if not count)
        while self.ready or self.waiting:
            if self.ready:
                _, at = heappop(self.ready)
                if self._awaited(at) and not self.parts[at].alias:
                    self.waiting.append(at)  # a collective has started since
                    continue
            else:  # what waits for messages that were sent first
                at = min(self.waiting, key=lambda one: (max(self._awaited(one).values()), one))
                for number in self._awaited(at):
                    del self.started[number]
                again = [one for one in self.waiting if one != at]
                self.waiting = []
                self._sort(again)
            yield at
            self._note(at)
            self._sort(self._freed(at))

    def _note(self, at: int) -> None:
        """Notes whose memory the part's values are."""
        part = self.parts[at]
        if part.collective:
            self.started[at] = self.collectives
            self.collectives += 1
            for node in (*part.reads, *part.makes):
                self.memory.setdefault(node, set()).add(at)
        elif part.alias:
            self.memory[part.makes[0]] = self.memory.setdefault(part.reads[0], set())

    def _freed(self, at: int) -> Iterable[int]:
        for number in self.after[at]:
            self.left[number] -= 1
            if not self.left[number]:
                yield number

    def _sort(self, numbers: Iterable[int]) -> None:
        """Adds parts to those that can run, or to those that wait."""
        for at in numbers:
            if self._awaited(at) and not self.parts[at].alias:
                self.waiting.append(at)
            else:
                heappush(self.ready, (self.until[at], at))

    def _awaited(self, at: int) -> dict[int, int]:
        """The collectives under way whose memory a part touches, and when each has started."""
        found: set[int] = set()
        for node in self.parts[at].reads:
            found |= self.memory.get(node, set())
        return {number: self.started[number] for number in found if number in self.started}
