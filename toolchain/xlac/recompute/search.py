"""Decides which tasks to recompute, and when, so that memory stays within a limit at low cost.

The order of first runs is fixed; a plan lists the tasks that are recomputed before each first run
(as in Checkmate, Jain et al., 2020). The first plan is greedy: at the memory peak, the value that
saves most for its cost is dropped and recomputed before its next reader. Then the plan is improved
by ruin-and-recreate and by simulated annealing, within a budget of work. Random numbers have a
fixed seed and no decision depends on time: the same problem has the same plan everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf
from random import Random

from xlac.recompute.problem import Problem
from xlac.recompute.stages import PlanOfStages, Stages
from xlac_sdk.support.limits import count_work

WORK = 400_000  # budget of a search: task runs whose memory is computed
UNFIT = 5  # times the budget may be used while no plan fits
TRIED = 10  # most promising candidates whose effect is computed exactly
LOWER = (0.95, 0.9, 0.8, 0.7)  # shares of the limit: further greedy plans start from these
RUINED = (0.1, 0.25, 0.5)  # shares of a plan that ruin-and-recreate removes
MANY = 400  # required tasks: with more, candidates are taken without trying each
NOISES = (0.0, 0.5, 2.0)  # randomness of the choices that repair a plan
RUINS = 60  # rounds of ruin-and-recreate without improvement before it ends
ROUNDS = 3  # of annealing
HOT, COLD = 0.03, 0.001  # first and last temperature of annealing, as a share of the cost
CHEAP, DEAR = 0.5, 30.0  # first and last price of memory beyond the limit
ENOUGH = 1.002  # a plan within this factor of the cost without a limit ends the search

Candidate = tuple[float, int, tuple[int, ...]]  # gain for its cost, stage, tasks run before it


@dataclass(frozen=True, slots=True)
class RecomputePlan:
    """A sequence of tasks, its cost (bytes that could be moved), and whether the limit holds."""

    sequence: tuple[int, ...]
    cost: float
    fits: bool


def planned(problem: Problem, limit: int, work: int = WORK) -> RecomputePlan:
    """A low-cost sequence of the problem's tasks within a limit in bytes, first runs in their
    order; where none is found, one that exceeds the limit by little. `work` is the budget (see
    WORK).
    """
    search = _LimitSearch(problem, limit, work)
    search.run()
    stages = search.stages
    return RecomputePlan(tuple(stages.sequence()), stages.cost, stages.excess == 0)


class _LimitSearch:
    def __init__(self, problem: Problem, limit: int, work: int) -> None:
        self.problem, self.work = problem, work
        self.stages = Stages(problem, limit)
        self.makers = problem.makers()
        self.random = Random(0)
        self.best: tuple[float, float] = (inf, inf)
        self.kept: PlanOfStages = ()
        self.noise = 0.0  # randomness of `improve`, which makes ruin-and-recreate explore

    def run(self) -> None:
        """Makes a greedy plan, then improves it."""
        stages = self.stages
        self.repair()
        self.prune()
        self.keep()
        for share in LOWER:
            self.begin_below(share)
        idle = 0
        while self.goes_on() and idle < RUINS and not stages.excess:
            self.ruin()
            self.noise = NOISES[idle % len(NOISES)]
            self.repair()
            self.noise = 0.0
            self.prune()
            idle = 0 if self.keep() else idle + 1
            stages.restore(self.kept)
        idle = 0
        while self.goes_on() and idle < 2:
            self.anneal(stages.looked + self.work // ROUNDS)
            self.repair()
            self.prune()
            idle = 0 if self.keep() else idle + 1
            stages.restore(self.kept)

    def begin_below(self, share: float) -> None:
        """Makes a greedy plan for a share of the limit, and prunes it for the limit itself."""
        if not self.goes_on():
            return
        lower = _LimitSearch(self.problem, int(self.stages.limit * share), 0)
        lower.repair()
        self.stages.looked += lower.stages.looked
        self.stages.restore(lower.stages.plan())
        self.repair()
        self.prune()
        self.keep()
        self.stages.restore(self.kept)

    def goes_on(self) -> bool:
        """Whether the best plan is not good enough yet, and the budget is not used up."""
        count_work()
        enough = self.best <= (0, self.problem.cost * ENOUGH)
        return not enough and self.stages.looked < self.work * (UNFIT if self.best[0] else 1)

    def keep(self) -> bool:
        """Keeps the plan if it is the best so far."""
        stages = self.stages
        if (stages.excess, stages.cost) >= self.best:
            return False
        self.best, self.kept = (stages.excess, stages.cost), stages.plan()
        return True

    def ruin(self) -> None:
        """Removes a share of recomputations: at random, of a range of stages, or of some tasks."""
        stages, draw = self.stages, self.random
        share = RUINED[draw.randrange(len(RUINED))]
        way = draw.randrange(3)
        if way == 0:
            gone = [run for run in stages.runs if draw.random() < share]
        elif way == 1:
            start = draw.randrange(len(stages.again))
            end = start + max(1, int(len(stages.again) * share))
            gone = [run for run in stages.runs if start <= run[0] < end]
        else:
            tasks = sorted({number for _, number in stages.runs})
            some = {number for number in tasks if draw.random() < share}
            gone = [run for run in stages.runs if run[1] in some]
        for run in gone:
            stages.remove(*run)

    # ---- annealing ---------------------------------------------------------------------------

    def anneal(self, until: int) -> None:
        """Simulated annealing: random changes that improve the plan are kept, others with a
        probability that falls with the temperature.
        """
        stages, random = self.stages, self.random.random
        start, scale = stages.looked, self.problem.cost / max(1, stages.limit)
        while stages.looked < until:
            done = (stages.looked - start) / max(1, until - start)
            heat = self.problem.cost * HOT * (COLD / HOT) ** done
            price = scale * CHEAP * (DEAR / CHEAP) ** done
            now = stages.cost + price * stages.excess
            undo = self.change()
            new = stages.cost + price * stages.excess
            if new <= now or random() < exp((now - new) / heat):
                self.keep()
            else:
                for stage, number in undo:
                    stages.toggle(stage, number)
            stages.looked += 1

    def change(self) -> list[tuple[int, int]]:
        """Makes a random change. Returns the (stage, task) pairs whose toggling undoes it."""
        stages, draw = self.stages, self.random.randrange
        runs = stages.runs
        way = self.random.random()
        if runs and way < 0.6:
            stage, number = runs[draw(len(runs))]
            done = [(stage, number)]
            if way < 0.3:
                to = max(0, min(len(stages.again) - 1, stage + draw(9) - 4))
                if to == stage or number in stages.again[to] or not stages.may_run(number, to):
                    return []
                done.append((to, number))
        else:
            stage = draw(len(stages.again))
            if way > 0.85:  # any task, even if nothing reads it there: its operands may be live
                number = draw(len(self.problem.tasks))
            else:
                here = (stage, *stages.again[stage])
                reads = self.problem.tasks[here[draw(len(here))]].reads
                if not reads:
                    return []
                makers = self.makers[reads[draw(len(reads))]]
                number = makers[draw(len(makers))]
            if number in stages.again[stage] or not stages.may_run(number, stage):
                return []
            done = [(stage, number)]
            if self.random.random() < 0.5:
                done = [(stage, n) for n in self.closure(number, stage, stage, False)]
        for stage, number in done:
            stages.toggle(stage, number)
        return done

    # ---- reducing memory ---------------------------------------------------------------------

    def repair(self) -> None:
        """Adds recomputations at the memory peak until the limit holds, or nothing more helps."""
        stages, stuck, steps = self.stages, set[int](), 0
        bound = stages.looked + max(self.work, WORK)
        while stages.excess and steps < 20 * len(stages.again) + 100 and stages.looked < bound:
            steps += 1
            free = [s for s in range(len(stages.again)) if s not in stuck]
            at = max(free, key=stages.most.__getitem__, default=-1)
            if at < 0 or stages.most[at] <= stages.limit:
                return
            if self.improve(at):
                stuck.clear()
            else:
                stuck.add(at)

    def improve(self, at: int) -> bool:
        """Adds the candidate that reduces memory most for its cost; False where none does."""
        stages, best, chosen = self.stages, 0.0, None
        candidates = self.candidates(at)
        candidates.sort(key=lambda one: (-one[0], one[1], one[2]))
        if len(stages.again) > MANY:
            return self.improve_at_once(at, candidates)
        for _, stage, tasks in candidates[:TRIED]:
            cost = sum(self.problem.tasks[number].cost for number in tasks)
            gained = stages.excess - stages.trial(stage, tasks)
            if gained > 0:
                worth = gained / (cost + 1.0) * (1.0 + self.noise * self.random.random())
                if worth > best:
                    best, chosen = worth, (stage, tasks)
        if chosen is None:
            return False
        stages.add(*chosen)
        return True

    def improve_at_once(self, at: int, candidates: Sequence[Candidate]) -> bool:
        """Adds the most promising candidates until the stage is within the limit."""
        stages, helped = self.stages, False
        for _, stage, tasks in candidates:
            if stages.most[at] <= stages.limit:
                break
            before = stages.excess
            new = [number for number in tasks if number not in stages.again[stage]]
            stages.add(stage, new)
            if stages.excess < before:
                helped = True
            else:
                for number in new:
                    stages.remove(stage, number)
        return helped

    def candidates(self, at: int) -> list[Candidate]:
        """Recomputations that would reduce memory at a stage."""
        stages, promises = self.stages, dict[tuple[int, tuple[int, ...]], float]()
        end = at
        while end + 1 < len(stages.most) and stages.most[end + 1] > stages.limit:
            end += 1
        for buffer in stages.through(at):
            nbytes = self.problem.nbytes[buffer]
            stage = stages.next_read(buffer, at)
            if stage < 0 or not nbytes:
                continue
            for maker in self.makers[buffer]:
                for extends in (False, True):
                    tasks = self.closure(maker, stage, at, extends)
                    if tasks:
                        cost = sum(self.problem.tasks[number].cost for number in tasks)
                        promise = nbytes * (min(stage, end + 1) - at) / (cost + 1.0)
                        promises[stage, tasks] = max(promise, promises.get((stage, tasks), 0.0))
        return [(promise, *key) for key, promise in promises.items()]

    def closure(self, maker: int, stage: int, at: int, extends: bool) -> tuple[int, ...]:
        """A task and those that must run before it, so that it can run before a stage. Operands
        that are not live then are recomputed too, unless their last use is after the stage `at`, so
        that keeping them does not raise the peak there, or `extends` says to keep them in any case.
        Empty where a task cannot be recomputed there.
        """
        stages, tasks = self.stages, self.problem.tasks
        there = set(stages.again[stage])
        needed: set[int] = set()
        todo = [maker]
        while todo:
            number = todo.pop()
            if number in needed or number in there:
                continue
            if not stages.may_run(number, stage):
                return ()
            needed.add(number)
            for buffer in tasks[number].reads:
                if not self.problem.nbytes[buffer] or stages.alive_before(buffer, stage):
                    continue
                makers = self.makers[buffer]
                if any(one in needed or one in there for one in makers):
                    continue
                if extends or stages.last_event(buffer, stage) > at:
                    continue
                todo.append(min(makers[-1:] + makers[:1], key=lambda one: tasks[one].cost))
        return tuple(sorted(needed, key=stages.rank.__getitem__))

    # ---- pruning -----------------------------------------------------------------------------

    def prune(self) -> None:
        """Removes recomputations that the limit does not need, the most expensive first."""
        stages = self.stages
        runs = [(s, number) for s, again in enumerate(stages.again) for number in again]
        runs.sort(key=lambda run: (-self.problem.tasks[run[1]].cost, run))
        for stage, number in runs:
            stages.remove_if_free(stage, number)
