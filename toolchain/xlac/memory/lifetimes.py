"""When each temporary is alive, counted in steps of a program that is being written."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from xlac.memory.arena import LiveRange, live_bound
from xlac_sdk.programs.program import Role, Slot


class Lifetimes:
    """A clock of steps, and the first and last step at which each temporary is used.

    A temporary made before a loop and used inside it stays alive until the loop ends.
    """

    def __init__(self) -> None:
        self.now = 0
        self._spans: dict[Slot, list[int]] = {}
        self._level: dict[Slot, int] = {}
        self._loops: list[tuple[int, set[Slot]]] = []

    def tick(self) -> None:
        """Begins the next step."""
        self.now += 1

    def use(self, slot: Slot) -> None:
        """Records that a slot is used in this step; only temporaries count."""
        if slot.role is not Role.TEMPORARY:
            return
        span = self._spans.setdefault(slot, [self.now, self.now])
        self._level.setdefault(slot, len(self._loops))
        span[1] = self.now
        for _, used in self._loops:
            used.add(slot)

    def local(self, slot: Slot) -> bool:
        """Whether a temporary was made in the innermost open loop (or outside all, if none is
        open).
        """
        return self._level.get(slot) == len(self._loops)

    @contextmanager
    def loop(self) -> Iterator[None]:
        """Inside the block are the steps of a loop."""
        self.tick()
        self._loops.append((self.now, set()))
        yield
        start, used = self._loops.pop()
        for slot in used:
            if self._spans[slot][0] < start:
                self._spans[slot][1] = self.now
        self.tick()

    def spans(self) -> dict[Slot, LiveRange]:
        """First and last use of every temporary."""
        return {
            slot: LiveRange(slot.nbytes, first, last) for slot, (first, last) in self._spans.items()
        }

    def inside(self, times: Sequence[tuple[int, int]]) -> list[int]:
        """For consecutive ranges of steps: the most bytes, at one step, of temporaries used in that
        range alone.
        """
        starts = [start for start, _ in times]
        spans_by_stretch: list[list[LiveRange]] = [[] for _ in times]
        for span in self.spans().values():
            at = bisect_right(starts, span.first) - 1
            while at >= 0 and times[at][1] >= span.first:
                if span.last <= times[at][1]:
                    spans_by_stretch[at].append(span)
                    break
                at -= 1
        return [live_bound(spans) for spans in spans_by_stretch]
