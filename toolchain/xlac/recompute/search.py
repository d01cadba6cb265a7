"""Which tasks to run again, and when, so that memory stays within a limit at the least cost.

The order of first runs is given; what is decided is a list of tasks that run again before each
first run (as in Checkmate, Jain et al., 2020; what is kept follows). A first plan is made greedily:
where most is in memory, what gains most for its cost is run again before its next reader. Then
parts of the plan are taken out and made anew, and it is annealed, within the work that is allowed.
Nothing depends on time or chance: the same problem has the same plan everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf
from random import Random

from xlac.recompute.problem import Problem
from xlac.recompute.stages import PlanOfStages, Stages
from xlac_sdk.support.limits import went

WORK = 400_000  # runs of tasks that a search looks at, in all
TRIED = 10  # candidates whose effect is computed, of those that promise most
LOWER = (0.95, 0.9, 0.8, 0.7)  # of the limit, for plans to begin with
RUINED = (0.1, 0.25, 0.5)  # parts of a plan that are made anew
MANY = 400  # required tasks of which more are not decided one candidate after the other
NOISES = (0.0, 0.5, 2.0)
RUINS = 60  # of them that bring nothing, after which it ends
ROUNDS = 3  # of annealing
HOT, COLD = 0.03, 0.001
"""How much worse a plan may be that is taken, of the cost: at first, in the end."""
CHEAP, DEAR = 0.5, 30.0  # what memory beyond the limit costs, at first and in the end
ENOUGH = 1.002  # times the cost without a limit


@dataclass(frozen=True, slots=True)
class RecomputePlan:
    """A sequence of tasks, and whether it stays within the limit."""

    sequence: tuple[int, ...]
    cost: float
    fits: bool


def planned(problem: Problem, limit: int, work: int = WORK) -> RecomputePlan:
    """A sequence of the problem's tasks, in their order, that stays within a limit: one of low
    cost; or, where none is found, one that goes beyond it by little.
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
        self.noise = 0.0  # how much chance there is in what is chosen to make room

    def run(self) -> None:
        """Makes a plan, then better ones."""
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
        """Makes a plan for a lower limit, and takes out what the limit holds without."""
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
        """Whether there may be a better plan, and work is left to find it."""
        went()
        enough = self.best <= (0, self.problem.cost * ENOUGH)
        return not enough and self.stages.looked < self.work

    def keep(self) -> bool:
        """Keeps the plan if it is the best so far."""
        stages = self.stages
        if (stages.excess, stages.cost) >= self.best:
            return False
        self.best, self.kept = (stages.excess, stages.cost), stages.plan()
        return True

    def ruin(self) -> None:
        """Takes runs out: some of all, those of some stages, or those of some tasks."""
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

    # ---- chance ------------------------------------------------------------------------------

    def anneal(self, until: int) -> None:
        """Changes the plan at random: for the better always, for the worse sometimes, and less and
        less often.
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
        """One change at random; what takes it back."""
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
            if way > 0.85:  # something that nobody reads there: its operands may be in memory
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

    # ---- making room -------------------------------------------------------------------------

    def repair(self) -> None:
        """Runs tasks again until the limit holds, or nothing more helps."""
        stages, stuck, steps = self.stages, set[int](), 0
        bound = stages.looked + max(self.work, WORK)
        while stages.excess and steps < 20 * len(stages.again) + 100 and stages.looked < bound:
            steps += 1
            at = max((s for s in range(len(stages.again)) if s not in stuck), key=stages.most.__getitem__, default=-1)  # fmt: skip
            if at < 0 or stages.most[at] <= stages.limit:
                return
            if self.improve(at):
                stuck.clear()
            else:
                stuck.add(at)

    def improve(self, at: int) -> bool:
        """Takes the candidate that lowers memory most for its cost; False where none does."""
        stages, best, chosen = self.stages, 0.0, None
        found = self.candidates(at)
        found.sort(key=lambda one: (-one[0], one[1], one[2]))
        if len(stages.again) > MANY:
            return self.improve_at_once(at, found)
        for _, stage, tasks in found[:TRIED]:
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

    def improve_at_once(self, at: int, found: Sequence[tuple[float, int, tuple[int, ...]]]) -> bool:
        """Takes what promises most until the stage is within the limit, without trying each."""
        stages, helped = self.stages, False
        for _, stage, tasks in found:
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

    def candidates(self, at: int) -> list[tuple[float, int, tuple[int, ...]]]:
        """What may be run again so that less is in memory at a stage: what it promises, before
        which stage, which tasks.
        """
        stages, found = self.stages, dict[tuple[int, tuple[int, ...]], float]()
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
                        found[stage, tasks] = max(promise, found.get((stage, tasks), 0.0))
        return [(promise, *key) for key, promise in found.items()]

    def closure(self, maker: int, stage: int, at: int, extends: bool) -> tuple[int, ...]:
        """A task and what has to run before it so that its operands are there before a stage.
        Operands that are not in memory then are computed again too, unless they can be kept from
        after the stage `at`, or are to be kept whatever that takes (`extends`). Empty where that
        cannot be.
        """
        stages, tasks = self.stages, self.problem.tasks
        there = set(stages.again[stage])
        found: set[int] = set()
        todo = [maker]
        while todo:
            number = todo.pop()
            if number in found or number in there:
                continue
            if not stages.may_run(number, stage):
                return ()
            found.add(number)
            for buffer in tasks[number].reads:
                if not self.problem.nbytes[buffer] or stages.alive_before(buffer, stage):
                    continue
                makers = self.makers[buffer]
                if any(one in found or one in there for one in makers):
                    continue
                if extends or stages.last_event(buffer, stage) > at:
                    continue
                todo.append(min(makers[-1:] + makers[:1], key=lambda one: tasks[one].cost))
        return tuple(sorted(found, key=stages.rank.__getitem__))

    # ---- doing without -----------------------------------------------------------------------

    def prune(self) -> None:
        """Takes out every run that the limit holds without, the dearest first."""
        stages = self.stages
        runs = [(s, number) for s, again in enumerate(stages.again) for number in again]
        runs.sort(key=lambda run: (-self.problem.tasks[run[1]].cost, run))
        for stage, number in runs:
            stages.remove_if_free(stage, number)
