"""The planner beside an exact solver, and memory as it is counted beside a plain count."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from exact_solver import solved
from recompute_problems import HALF, layered, learning, limited, problems

from xlac.recompute.limited_order import bytes_above, least_above
from xlac.recompute.order import least_memory
from xlac.recompute.problem import Problem, StateUpdate, Task, usage
from xlac.recompute.search import planned
from xlac.recompute.stages import Stages

OPTIMA = json.loads((Path(__file__).parent / "optima.json").read_text())


def plain_usage(problem: Problem, sequence: list[int]) -> list[int]:
    """What `usage` says, counted the slow way: of every run, what was written before and is read
    from there or later.
    """
    found = []
    for at, number in enumerate(sequence):
        alive = set(problem.tasks[number].writes) | set(problem.tasks[number].reads)
        for buffer in range(len(problem.nbytes)):
            later = [problem.tasks[n] for n in sequence[at + 1 :]]
            reader = next((i for i, t in enumerate(later) if buffer in t.reads), None)
            writer = next((i for i, t in enumerate(later) if buffer in t.writes), None)
            written = any(buffer in problem.tasks[n].writes for n in sequence[:at])
            if written and reader is not None and (writer is None or writer >= reader):
                alive.add(buffer)
        found.append(sum(problem.nbytes[b] for b in alive))
    return found


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", problems())
def test_within_three_percent_of_the_optimum(name: str) -> None:
    problem = problems()[name]
    limit = limited(problem, HALF)
    plan = planned(problem, limit)
    best, bound = OPTIMA[name]
    assert plan.fits and max(usage(problem, plan.sequence)) <= limit
    assert plan.cost == pytest.approx(sum(problem.tasks[n].cost for n in plan.sequence))
    assert best == bound, "the optimum is proved"
    assert bound <= plan.cost <= 1.03 * bound


def test_recorded_optima_are_those_of_the_solver() -> None:
    pytest.importorskip("ortools", reason="pip install ortools")
    for name in ("chain 8", "skips 9"):
        problem = problems()[name]
        found = solved(problem, limited(problem, HALF))
        assert found is not None and [found.cost, found.bound] == OPTIMA[name]


@pytest.mark.parametrize("seed", range(4))
def test_plans_are_right_and_memory_is_counted(seed: int) -> None:
    problem = layered(seed, 16) if seed % 2 else learning(seed, 6, skips=True)
    limit = limited(problem, 0.4)
    plan = planned(problem, limit, work=20_000)
    seen: set[int] = set()
    for number in plan.sequence:
        assert all(b in seen for b in problem.tasks[number].reads)
        seen |= set(problem.tasks[number].writes)
    firsts = list(dict.fromkeys(plan.sequence))
    assert firsts == list(range(problem.required))
    assert usage(problem, plan.sequence) == plain_usage(problem, list(plan.sequence))
    assert plan == planned(problem, limit, work=20_000)


def test_changes_of_a_plan_are_counted_as_if_it_were_made_anew() -> None:
    problem, draw = layered(7, 20), Random(0)
    stages = Stages(problem, limited(problem, 0.3))
    for _ in range(200):
        stage = draw.randrange(1, problem.required)
        number = draw.randrange(stage)
        trial = stages.trial(stage, (number,)) if number not in stages.again[stage] else None
        stages.toggle(stage, number)
        used = usage(problem, stages.sequence())
        excess = sum(max(0, one - stages.limit) for one in used)
        assert stages.excess == excess and trial in (None, excess)
        assert max(stages.most) == max(used)
        assert stages.cost == pytest.approx(sum(problem.tasks[n].cost for n in stages.sequence()))


@pytest.mark.parametrize("seed", range(3))
def test_orders_run_right_and_take_no_more(seed: int) -> None:
    problem = layered(seed, 40)
    order = least_memory(problem)
    seen: set[int] = set()
    for number in order:
        assert all(b in seen for b in problem.tasks[number].reads)
        seen |= set(problem.tasks[number].writes)
    assert sorted(order) == list(range(problem.required))
    assert max(usage(problem, order)) <= max(usage(problem, range(problem.required)))


@pytest.mark.parametrize("seed", range(4))
def test_orders_for_a_limit_run_right_and_have_less_above_it(seed: int) -> None:
    problem = layered(seed, 40) if seed % 2 else learning(seed, 12, skips=True)
    limit, order = limited(problem, HALF), least_memory(problem)
    other = least_above(problem, order, limit)
    seen: set[int] = set()
    for number in other:
        assert all(b in seen for b in problem.tasks[number].reads)
        seen |= set(problem.tasks[number].writes)
    assert sorted(other) == list(range(problem.required))
    above = bytes_above(problem, order, limit)
    assert bytes_above(problem, other, limit) <= above
    assert other == order or bytes_above(problem, other, limit) < above


def test_a_gradient_that_waits_for_its_end_is_taken_early() -> None:
    """Three results of 4 bytes, each read at the end for one byte: those bytes are computed as soon
    as they can be.
    """
    tasks = [Task(1.0, (), (n,)) for n in range(3)]
    tasks += [Task(1.0, (n,), (3 + n,)) for n in range(3)]
    tasks.append(Task(1.0, (3, 4, 5), (6,)))
    problem = Problem(tuple(tasks), 7, (4, 4, 4, 1, 1, 1, 1), results=frozenset({6}))
    assert least_above(problem, range(7), 6) == [0, 3, 1, 4, 2, 5, 6]


@pytest.mark.parametrize("readers", [2, 3])
def test_readers_that_free_a_buffer_together_are_taken_early_together(readers: int) -> None:
    """A value of 8 bytes is read for one byte each at the end, after two tasks that share 8 bytes:
    one reader alone frees nothing, so all are moved.
    """
    made = range(3, 3 + readers)
    tasks = [Task(1.0, (), (0, 1)), Task(1.0, (1,), (2,)), Task(1.0, (2,))]
    tasks += [Task(1.0, (0,), (result,)) for result in made]
    nbytes = (8, 1, 8, *[1] * readers)
    problem = Problem(tuple(tasks), len(tasks), nbytes, results=frozenset(made))
    order = least_above(problem, range(len(tasks)), 9 + readers)
    assert order == [0, *reversed(made), 1, 2]
    assert bytes_above(problem, order, 9 + readers) == 0


def test_an_update_goes_before_what_reads_the_old_value_where_that_saves_memory() -> None:
    """An activation of 8 bytes is read by a weight's update (2 bytes) and by a task that may
    overwrite it, and that reads the old weight.
    """
    tasks = (
        Task(1.0, (), (0,)),
        Task(1.0, (0,), (1,), states=(0,), in_place=((1, 0),)),
        Task(1.0, (1,), (2,)),
        Task(1.0, (0,), (3,), states=(0,)),
    )
    updates = (StateUpdate(0, 3, 2, True),)
    problem = Problem(tasks, 4, (8, 8, 1, 0), updates, results=frozenset({2, 3}))
    assert max(usage(problem, range(4))) == 17
    assert least_above(problem, range(4), 17) == [0, 1, 2, 3], "within the limit it stays last"
    order = least_above(problem, range(4), 11)
    assert order == [0, 3, 1, 2] and max(usage(problem, order)) == 11


def test_a_plan_for_hundreds_of_tasks() -> None:
    problem = learning(3, 200)
    plan = planned(problem, limited(problem, HALF), work=100_000)
    assert plan.fits and plan.cost < 1.3 * problem.cost
