"""Tasks that read and write buffers, and the memory that a sequence of them needs.

A task may run more than once. A reader gets what was last written before it, and a buffer is live
from that write to its last reader. So a sequence of tasks determines everything: what is kept, what
is dropped, and what is recomputed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Task:
    """One computation. `cost` is its time in bytes that could be moved; `reads` and `writes` are
    buffers; `scratch` is its scratch memory in bytes, and `copies` further bytes in a second run,
    for results that are outside the arena.

    `in_place` are pairs of a written and a read buffer that may share memory when nothing reads the
    second any more. `states` are the state tensors that it reads. A task that is not `repeatable`
    runs once. `part_of` is the required task that an optional one is a part of, else -1. `freed` is
    a buffer that it reads, and the bytes that it takes less if nothing reads that afterwards.
    """

    cost: float
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    scratch: int = 0
    copies: int = 0
    in_place: tuple[tuple[int, int], ...] = ()
    states: tuple[int, ...] = ()
    repeatable: bool = True
    part_of: int = -1
    freed: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """A task that writes the next value of a state tensor. It overwrites the old value, unless that
    is read later, or by the task itself where it cannot work `in_place`; then it needs `nbytes`
    from there to the end.
    """

    state: int
    task: int
    nbytes: int
    in_place: bool


@dataclass(frozen=True, slots=True)
class Problem:
    """The first `required` tasks must each run, and can run in this order; the others are further
    ways to write some of the buffers. `nbytes` are the sizes of buffers; `results` are kept to the
    end.
    """

    tasks: tuple[Task, ...]
    required: int
    nbytes: tuple[int, ...]
    updates: tuple[StateUpdate, ...] = ()
    results: frozenset[int] = frozenset()

    @property
    def cost(self) -> float:
        """The cost of running each required task once."""
        return sum(task.cost for task in self.tasks[: self.required])

    def least(self, number: int) -> int:
        """The bytes that a task needs when nothing else is in memory."""
        task = self.tasks[number]
        shared = sum(self.nbytes[r] for w, r in task.in_place if self.nbytes[w] == self.nbytes[r])
        if task.freed:
            shared += task.freed[1]
        return task.scratch + sum(self.nbytes[b] for b in (*task.reads, *task.writes)) - shared

    def makers(self) -> list[list[int]]:
        """The tasks that write each buffer, by buffer; the required one first."""
        makers: list[list[int]] = [[] for _ in self.nbytes]
        for number, task in enumerate(self.tasks):
            for buffer in task.writes:
                makers[buffer].append(number)
        return makers

    def late(self, order: Sequence[int]) -> list[StateUpdate]:
        """The updates that cannot overwrite the old value when tasks run in this order."""
        last: dict[int, int] = {}
        first: dict[int, int] = {}
        for at, number in enumerate(order):
            first.setdefault(number, at)
            for state in self.tasks[number].states:
                last[state] = at
        return [u for u in self.updates if not self._over(u, last.get(u.state, -1), first[u.task])]

    def _over(self, update: StateUpdate, read: int, made: int) -> bool:
        reads_itself = update.state in self.tasks[update.task].states
        return read < made or (read == made and (update.in_place or not reads_itself))


def usage(problem: Problem, sequence: Sequence[int]) -> list[int]:
    """Bytes in memory while each task of a sequence runs."""
    needed = bytearray(len(problem.nbytes))
    for buffer in problem.results:
        needed[buffer] = 1
    live = sum(problem.nbytes[buffer] for buffer in problem.results)
    live_bytes = [0] * len(sequence)
    first = {number: at for at, number in reversed(list(enumerate(sequence)))}
    for at in range(len(sequence) - 1, -1, -1):
        task = problem.tasks[sequence[at]]
        live_bytes[at], live = run_before(task, live, needed, problem.nbytes)
        if first[sequence[at]] != at:
            live_bytes[at] += task.copies
    for update in problem.late(sequence):
        for at in range(first[update.task], len(live_bytes)):
            live_bytes[at] += update.nbytes
    return live_bytes


def run_before(task: Task, live: int, needed: bytearray, nbytes: Sequence[int]) -> tuple[int, int]:
    """Bytes in memory while a task runs, and before it, given those `live` after it. Updates
    `needed`, the liveness of each buffer, from after the task to before it.
    """
    here = live + task.scratch
    for buffer in task.writes:
        if needed[buffer]:
            needed[buffer] = 0
            live -= nbytes[buffer]
        else:
            here += nbytes[buffer]
    dying = 0
    for buffer in task.reads:
        if not needed[buffer]:
            needed[buffer] = 2
            dying += nbytes[buffer]
    if dying:
        here += dying
        for written, read in task.in_place:
            if needed[read] == 2 and nbytes[written] == nbytes[read]:
                needed[read] = 1
                here -= nbytes[read]
        if task.freed and needed[task.freed[0]] == 2:
            here -= task.freed[1]
        for buffer in task.reads:
            needed[buffer] = 1
    return here, live + dying
