"""Orders of tasks in less memory: those that free memory run early, those that take it late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import pairwise

from xlac.recompute.problem import Problem, usage
from xlac_sdk.support.limits import count_work

CHAIN = (
    4  # tasks that are looked at together: one that takes memory, for those after it that free more
)


def least_memory(problem: Problem) -> list[int]:
    """The required tasks in the given order or one with a lower memory peak: the best of four."""
    graph = Precedence(problem)
    forward = graph.scheduled(range(problem.required))
    late = graph.backward()
    orders = [list(range(problem.required)), forward, late, graph.scheduled(late)]
    return min(orders, key=lambda order: max(usage(problem, order), default=0))


def reordered(problem: Problem, order: Sequence[int]) -> Problem:
    """The problem with its required tasks renumbered in another order."""
    place = {number: at for at, number in enumerate(order)}
    tasks = [problem.tasks[number] for number in order]
    tasks += [replace(t, part_of=place[t.part_of]) for t in problem.tasks[problem.required :]]
    updates = tuple(replace(update, task=place[update.task]) for update in problem.updates)
    return replace(problem, tasks=tuple(tasks), updates=updates)


class Precedence:
    """The precedence graph of required tasks: writers of a buffer before its readers; tasks that
    are not repeatable in their order; and, unless that makes a cycle, readers of a state tensor
    before its update, so that it can be updated in place.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.tasks = problem.tasks[: problem.required]
        self.readers: list[list[int]] = [[] for _ in problem.nbytes]
        for number, task in enumerate(self.tasks):
            for buffer in task.reads:
                self.readers[buffer].append(number)
        self.after: list[set[int]] = [set() for _ in self.tasks]
        # tasks that read a state tensor, each with a task that updates it and need not come after
        self.optional: set[tuple[int, int]] = set()
        for number, task in enumerate(self.tasks):
            for buffer in task.writes:
                self.after[number].update(self.readers[buffer])
        once = [number for number, task in enumerate(self.tasks) if not task.repeatable]
        for number, following in pairwise(once):  # foreign code may have effects
            self.after[number].add(following)
        self._updates_last()
        self.before: list[set[int]] = [set() for _ in self.tasks]
        for number, later in enumerate(self.after):
            for other in later:
                self.before[other].add(number)

    def _updates_last(self) -> None:
        """Adds edges from the readers of a state tensor to its update. If they make a cycle, only
        those stay whose reader comes first in the given order.
        """
        reading: dict[int, list[int]] = {}
        for number, task in enumerate(self.tasks):
            for state in task.states:
                reading.setdefault(state, []).append(number)
        added: list[tuple[int, int]] = []
        for update in self.problem.updates:
            for reader in reading.get(update.state, ()):
                if reader != update.task and update.task not in self.after[reader]:
                    self.after[reader].add(update.task)
                    added.append((reader, update.task))
        if not self._acyclic():
            for reader, writer in added:
                if writer < reader:
                    self.after[reader].discard(writer)
        self.optional = {pair for pair in added if pair[1] in self.after[pair[0]]}

    def _acyclic(self) -> bool:
        missing = [0] * len(self.tasks)
        for later in self.after:
            for other in later:
                missing[other] += 1
        ready = [n for n, count in enumerate(missing) if not count]
        done = 0
        while ready:
            number = ready.pop()
            done += 1
            for other in self.after[number]:
                missing[other] -= 1
                if not missing[other]:
                    ready.append(other)
        return done == len(self.tasks)

    def scheduled(self, priority: Sequence[int]) -> list[int]:
        """List scheduling by priority, except that a task which frees memory, alone or with a short
        chain of tasks after it, runs as soon as it can.
        """
        state = _Running(self)
        rank = {number: at for at, number in enumerate(priority)}
        for wanted in priority:
            count_work()
            for number in state.missing_for(wanted, rank):
                if number not in state.done:
                    state.run(number)
                    while chain := state.freeing():
                        for other in chain:
                            state.run(other)
        return state.order

    def backward(self) -> list[int]:
        """List scheduling from the last task to the first, which picks the task that leaves least
        in memory before it: so memory is allocated late.
        """
        waiting = [len(later) for later in self.after]
        nbytes = self.problem.nbytes
        alive = [buffer in self.problem.results for buffer in range(len(nbytes))]
        grown: dict[int, int] = {}  # bytes that each ready task adds before it
        heap: list[tuple[int, int]] = []  # of these; entries may be out of date

        def look(number: int) -> None:
            task = self.tasks[number]
            gone = sum(nbytes[b] for b in task.writes if alive[b])
            grown[number] = sum(nbytes[b] for b in task.reads if not alive[b]) - gone
            heappush(heap, (grown[number], -number))

        for number, count in enumerate(waiting):
            if not count:
                look(number)
        order: list[int] = []
        while heap:
            count_work()
            growth, negative = heappop(heap)
            chosen = -negative
            if grown.get(chosen) != growth:
                continue
            del grown[chosen]
            order.append(chosen)
            for buffer in self.tasks[chosen].writes:
                alive[buffer] = False
            for buffer in self.tasks[chosen].reads:
                if not alive[buffer]:
                    alive[buffer] = True
                    for other in self.readers[buffer]:
                        if other in grown:
                            look(other)
            for other in self.before[chosen]:
                waiting[other] -= 1
                if not waiting[other]:
                    look(other)
        return order[::-1]


class _Running:
    """The state of a list scheduler: tasks that have run, and reads to come of each buffer."""

    def __init__(self, graph: Precedence) -> None:
        self.graph, self.nbytes = graph, graph.problem.nbytes
        self.order: list[int] = []
        self.done: set[int] = set()
        self.left = [len(readers) for readers in graph.readers]
        for buffer in graph.problem.results:
            self.left[buffer] += 1
        self.waiting = [len(before) for before in graph.before]
        self.look: dict[int, None] = {}  # tasks to examine: they may have begun to free memory

    def missing_for(self, wanted: int, rank: Mapping[int, int]) -> list[int]:
        """A task and all its predecessors that have not run, in topological order."""
        missing: dict[int, None] = {}
        stack = [(wanted, False)]
        while stack:
            number, ready = stack.pop()
            if ready:
                missing[number] = None
            elif number not in self.done and number not in missing:
                stack.append((number, True))
                before = sorted(self.graph.before[number], key=rank.__getitem__, reverse=True)
                stack += [(other, False) for other in before]
        return list(missing)

    def run(self, number: int) -> None:
        self.order.append(number)
        self.done.add(number)
        self.look.pop(number, None)
        for buffer in self.graph.tasks[number].reads:
            self.left[buffer] -= 1
            if self.left[buffer] == 1:
                self.look.update(dict.fromkeys(self.graph.readers[buffer]))
        for other in self.graph.after[number]:
            self.waiting[other] -= 1
            if not self.waiting[other]:
                self.look[other] = None

    def freeing(self) -> list[int]:
        """A chain of tasks that can run now and does not increase memory, or nothing."""
        for number in list(self.look):
            del self.look[number]
            if number not in self.done and not self.waiting[number]:
                chain = self.chain(number)
                if chain:
                    return chain
        return []

    def chain(self, number: int) -> list[int]:
        """The shortest chain from a task, of at most CHAIN tasks, that frees as much as it takes;
        empty if there is none.
        """
        left: dict[int, int] = {}
        waiting: dict[int, int] = {}
        chain: list[int] = []
        grown = 0
        while len(chain) < CHAIN:
            task = self.graph.tasks[number]
            chain.append(number)
            grown += sum(self.nbytes[b] for b in task.writes if self.left[b])
            for buffer in task.reads:
                left[buffer] = left.get(buffer, self.left[buffer]) - 1
                if not left[buffer]:
                    grown -= self.nbytes[buffer]
            if grown <= 0:
                return chain
            following = []
            for other in sorted(self.graph.after[number]):
                waiting[other] = waiting.get(other, self.waiting[other]) - 1
                if not waiting[other]:
                    following.append(other)
            if not following:
                break
            number = following[0]
        return []
