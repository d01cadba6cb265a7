"""A plan of recomputations, and its memory usage, updated incrementally when the plan changes.

A stage is the first run of a required task, with the tasks that are recomputed just before it.
Usage is computed backwards, from the last stage to the first. Liveness after each stage is stored,
so a change of one stage updates earlier stages only until liveness is the same as before.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

from xlac.recompute.problem import Problem, run_before

PlanOfStages = tuple[tuple[int, ...], ...]


class Stages:
    """A plan: `again[s]` are the tasks recomputed in stage s, in order. `excess` is the memory
    beyond the limit, summed over all runs; `most` is the peak of each stage. All in bytes.
    """

    def __init__(self, problem: Problem, limit: int) -> None:
        self.problem, self.limit = problem, limit
        self.tasks, self.nbytes = problem.tasks, problem.nbytes
        number = len(problem.nbytes)
        count = problem.required
        self.rank = [
            (task.part_of, at) if task.part_of >= 0 else (at, -1)
            for at, task in enumerate(problem.tasks)
        ]
        self.again: list[list[int]] = [[] for _ in range(count)]
        self.runs: list[tuple[int, int]] = []  # the same as pairs of stage and task
        self.cost = problem.cost
        self.looked = 0  # task runs whose memory was computed, against the budget of a search
        self.extra = [0] * count  # bytes in each stage of state updates that are not in place
        for update in problem.late(range(count)):
            for stage in range(update.task, count):
                self.extra[stage] += update.nbytes
        self.updated = {update.state: update.task for update in problem.updates}
        self.events: list[list[int]] = [[] for _ in range(number)]  # stages that touch each buffer
        self.readers: list[list[int]] = [[] for _ in range(number)]  # stages that read it
        for stage in range(count):
            self._note(stage, stage, True)
        # after each stage (the first entry: before all): the liveness of buffers, and live bytes
        self.alive = [bytearray(number) for _ in range(count + 1)]
        self.live = [0] * (count + 1)
        for buffer in problem.results:
            self.alive[count][buffer] = 1
            self.live[count] += self.nbytes[buffer]
        self.most = [0] * count
        self.beyond = [0] * count  # the excess of each stage
        self.excess = 0
        self._walk(count - 1, whole=True)

    # ---- queries -----------------------------------------------------------------------------

    def through(self, stage: int) -> list[int]:
        """The buffers that are live across a stage, which neither reads nor writes them."""
        touched = {
            b
            for n in (stage, *self.again[stage])
            for b in (*self.tasks[n].reads, *self.tasks[n].writes)
        }
        before, after = self.alive[stage], self.alive[stage + 1]
        live = [b for b, alive in enumerate(after) if alive and before[b] and b not in touched]
        return [b for b in live if b not in self.problem.results]

    def next_read(self, buffer: int, stage: int) -> int:
        """The first stage after one that reads a buffer; -1 where none does."""
        stages = self.readers[buffer]
        at = bisect_right(stages, stage)
        return stages[at] if at < len(stages) else -1

    def last_event(self, buffer: int, stage: int) -> int:
        """The last stage before one that reads or writes a buffer; -1 where none does."""
        at = bisect_left(self.events[buffer], stage)
        return self.events[buffer][at - 1] if at else -1

    def alive_before(self, buffer: int, stage: int) -> bool:
        """Whether a buffer is live when a stage begins."""
        return bool(self.alive[stage][buffer])

    def may_run(self, number: int, stage: int) -> bool:
        """Whether a task may be recomputed in a stage: its first run is before, and the state
        tensors that it reads are not updated in between.
        """
        task = self.tasks[number]
        first = task.part_of if task.part_of >= 0 else number
        if not task.repeatable or first >= stage:
            return False
        return all(self.updated.get(state, stage) >= stage for state in task.states)

    def sequence(self) -> list[int]:
        """All runs in order."""
        return [n for stage, again in enumerate(self.again) for n in (*again, stage)]

    def plan(self) -> PlanOfStages:
        """The recomputations, as an immutable value."""
        return tuple(map(tuple, self.again))

    # ---- changes -----------------------------------------------------------------------------

    def trial(self, stage: int, tasks: Iterable[int]) -> int:
        """The excess that further recomputations in a stage would give; the plan is unchanged."""
        again = self._with(stage, tasks)
        needed, live = bytearray(self.alive[stage + 1]), self.live[stage + 1]
        change = 0
        for at in range(stage, -1, -1):
            beyond, _, live = self._stage(
                at, again if at == stage else self.again[at], live, needed
            )
            change += beyond - self.beyond[at]
            if live == self.live[at] and needed == self.alive[at]:
                break
        return self.excess + change

    def add(self, stage: int, tasks: Iterable[int]) -> None:
        """Adds recomputations to a stage."""
        for number in tasks:
            if number not in self.again[stage]:
                self.again[stage] = self._with(stage, (number,))
                self.cost += self.tasks[number].cost
                self._note(number, stage, True)
                self.runs.append((stage, number))
        self._walk(stage)

    def remove(self, stage: int, number: int) -> None:
        """Removes a recomputation."""
        self.again[stage].remove(number)
        self.runs.remove((stage, number))
        self.cost -= self.tasks[number].cost
        self._note(number, stage, False)
        self._walk(stage)

    def toggle(self, stage: int, number: int) -> None:
        """Adds a recomputation, or removes it if it is there."""
        if number in self.again[stage]:
            self.remove(stage, number)
        else:
            self.add(stage, (number,))

    def remove_if_free(self, stage: int, number: int) -> None:
        """Removes a recomputation unless that increases the excess."""
        before = self.excess
        self.remove(stage, number)
        if self.excess > before:
            self.add(stage, (number,))

    def restore(self, plan: PlanOfStages) -> None:
        """Sets the plan."""
        for stage, wanted in enumerate(plan):
            for number in set(self.again[stage]).difference(wanted):
                self.remove(stage, number)
            if missing := set(wanted).difference(self.again[stage]):
                self.add(stage, sorted(missing))

    # ---- inside ------------------------------------------------------------------------------

    def _with(self, stage: int, tasks: Iterable[int]) -> list[int]:
        return sorted({*self.again[stage], *tasks}, key=self.rank.__getitem__)

    def _note(self, number: int, stage: int, there: bool) -> None:
        """Records that a task runs in a stage, or, if not `there`, that it does no longer."""
        task = self.tasks[number]
        for table, buffers in (
            (self.events, (*task.reads, *task.writes)),
            (self.readers, task.reads),
        ):
            for buffer in buffers:
                if there:
                    insort(table[buffer], stage)
                else:
                    del table[buffer][bisect_left(table[buffer], stage)]

    def _walk(self, start: int, whole: bool = False) -> None:
        """Updates usage from a stage towards the first, until liveness is the same as before."""
        needed, live = bytearray(self.alive[start + 1]), self.live[start + 1]
        for at in range(start, -1, -1):
            beyond, most, live = self._stage(at, self.again[at], live, needed)
            self.excess += beyond - self.beyond[at]
            self.beyond[at], self.most[at] = beyond, most
            if not whole and live == self.live[at] and needed == self.alive[at]:
                return
            self.alive[at], self.live[at] = bytearray(needed), live

    def _stage(
        self, stage: int, again: list[int], live: int, needed: bytearray
    ) -> tuple[int, int, int]:
        """The excess of a stage, its peak, and the live bytes before it; updates `needed`."""
        limit = self.limit - self.extra[stage]
        most, live = run_before(self.tasks[stage], live, needed, self.nbytes)
        beyond = most - limit if most > limit else 0
        for number in reversed(again):
            task = self.tasks[number]
            here, live = run_before(task, live, needed, self.nbytes)
            here += task.copies
            if here > limit:
                beyond += here - limit
            most = max(most, here)
        self.looked += 1 + len(again)
        return beyond, most + self.extra[stage], live
