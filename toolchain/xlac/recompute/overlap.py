"""The order of groups around collectives: what leads to one soonest comes first, each starts as
soon as its operand is there, and what waits for it comes after all that does not, so that
computation hides the messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import inf

from xlac.fusion.group import Group, Kind, Partition
from xlac.fusion.partition import is_alias
from xlac.ir.graph import Node


def overlapped(partition: Partition) -> Partition:
    """The partition with its groups in an order that hides its collectives; itself, where it has
    none. Groups keep their order but for that. The same on all ranks, which have equal groups.
    """
    if all(group.kind is not Kind.COLLECTIVE for group in partition.groups):
        return partition
    return replace(partition, groups=tuple(_InFlight(partition.groups).ordered()))


@dataclass
class _InFlight:
    """Groups by number while they are put in order: those that can run, and those that could, were
    it not for collectives that are under way.
    """

    groups: tuple[Group, ...]
    left: list[int] = field(init=False)  # the groups before each that have not run
    after: list[list[int]] = field(init=False)  # the groups that read what each computes
    until: list[float] = field(init=False)  # groups until the last collective that one leads to
    ready: list[tuple[float, int]] = field(init=False, default_factory=list)  # the fewest first
    waiting: list[int] = field(init=False, default_factory=list)
    started: dict[int, int] = field(init=False, default_factory=dict)  # when, of those under way
    collectives: int = field(init=False, default=0)  # that have started so far
    memory: dict[Node, set[int]] = field(init=False, default_factory=dict)  # and who uses a value

    def __post_init__(self) -> None:
        maker = {node: at for at, group in enumerate(self.groups) for node in group.outputs}
        before = [{maker[n] for n in group.inputs if n in maker} for group in self.groups]
        self.left = [len(numbers) for numbers in before]
        self.after = [[] for _ in self.groups]
        for at, numbers in enumerate(before):
            for number in numbers:
                self.after[number].append(at)
        self.until = [0.0 if g.kind is Kind.COLLECTIVE else inf for g in self.groups]
        for at in reversed(range(len(self.groups))):
            if self.after[at] and self.until[at]:
                self.until[at] = 1 + max(self.until[reader] for reader in self.after[at])

    def ordered(self) -> Iterable[Group]:
        """The groups in their new order."""
        self._sort(at for at, count in enumerate(self.left) if not count)
        while self.ready or self.waiting:
            if self.ready:
                _, at = heappop(self.ready)
                if self._awaited(at) and not is_alias(self.groups[at]):
                    self.waiting.append(at)  # a collective has started since
                    continue
            else:  # what waits for messages that were sent first
                at = min(self.waiting, key=lambda one: (max(self._awaited(one).values()), one))
                for number in self._awaited(at):
                    del self.started[number]
                again = [one for one in self.waiting if one != at]
                self.waiting = []
                self._sort(again)
            yield self.groups[at]
            self._note(at)
            self._sort(self._freed(at))

    def _note(self, at: int) -> None:
        """Notes whose memory the group's values are."""
        group = self.groups[at]
        if group.kind is Kind.COLLECTIVE:
            self.started[at] = self.collectives
            self.collectives += 1
            for node in (*group.inputs, *group.outputs):
                self.memory.setdefault(node, set()).add(at)
        elif is_alias(group):
            self.memory[group.outputs[0]] = self.memory.setdefault(group.inputs[0], set())

    def _freed(self, at: int) -> Iterable[int]:
        for number in self.after[at]:
            self.left[number] -= 1
            if not self.left[number]:
                yield number

    def _sort(self, numbers: Iterable[int]) -> None:
        """Adds groups to those that can run, or to those that wait."""
        for at in numbers:
            if self._awaited(at) and not is_alias(self.groups[at]):
                self.waiting.append(at)
            else:
                heappush(self.ready, (self.until[at], at))

    def _awaited(self, at: int) -> dict[int, int]:
        """The collectives under way whose memory a group touches, and when each has started."""
        found: set[int] = set()
        for node in self.groups[at].inputs:
            found |= self.memory.get(node, set())
        return {number: self.started[number] for number in found if number in self.started}
