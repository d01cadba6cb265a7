"""Checks an order of a pipeline by doing all ranks in turn: none may wait for what never comes, and
every task has to find the states that it would find, were micro-batches done one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlac.pipelining.plan import PhasePlan
from xlac.pipelining.schedule import Task, conflicts


class PipelineOrderError(Exception):
    """An order in which ranks wait for one another without end, or which changes results."""


def check_order(plans: Sequence[PhasePlan], ranks: Sequence[Sequence[Task]]) -> list[int]:
    """The most micro-batches that each rank has under way at once, of those that it does in several
    parts. Raises PipelineOrderError. Sends do not wait; a rank waits for a message where a task
    reads a value of another rank.
    """
    _check_tasks(plans, ranks)
    _check_states(plans, ranks)
    done: set[Task] = set()
    at = [0] * len(ranks)
    moved = True
    while moved:
        moved = False
        for rank, tasks in enumerate(ranks):
            while at[rank] < len(tasks) and not _missing(plans, tasks[at[rank]], done):
                done.add(tasks[at[rank]])
                at[rank] += 1
                moved = True
    stuck = [rank for rank, tasks in enumerate(ranks) if at[rank] < len(tasks)]
    if stuck:
        waits = [
            f"rank {rank} for phases {_missing(plans, ranks[rank][at[rank]], done)}"
            for rank in stuck
        ]
        raise PipelineOrderError("ranks wait for one another: " + ", ".join(waits))
    return [_most(plans, tasks) for tasks in ranks]


def _missing(plans: Sequence[PhasePlan], task: Task, done: set[Task]) -> list[Task]:
    """The tasks whose values one reads, and which are not done."""
    at, number = task
    plan = plans[at]
    read = {(at, plan.values[value].source) for value in plan.phases[number].reads.values()}
    return sorted(read - done)


def _check_tasks(plans: Sequence[PhasePlan], ranks: Sequence[Sequence[Task]]) -> None:
    """Every task is done once, by its rank."""
    wanted = [
        sorted(
            (at, phase.number)
            for at, plan in enumerate(plans)
            for phase in plan.phases
            if phase.rank == rank
        )
        for rank in range(plans[0].ranks)
    ]
    if [sorted(tasks) for tasks in ranks] != wanted:
        raise PipelineOrderError("not every task is done once, by the rank of its stage")


def _check_states(plans: Sequence[PhasePlan], ranks: Sequence[Sequence[Task]]) -> None:
    """Tasks that read and change a state are in the order of the micro-batches."""
    for rank, tasks in enumerate(ranks):
        phases = [plans[at].phases[number] for at, number in tasks]
        for later, task in enumerate(tasks):
            for earlier in range(later):
                if task < tasks[earlier] and conflicts(phases[earlier], phases[later]):
                    told = f"{tasks[earlier]} before {task}"
                    raise PipelineOrderError(f"rank {rank} changes a state in {told}")


def _most(plans: Sequence[PhasePlan], tasks: Sequence[Task]) -> int:
    under_way = most = 0
    seen: dict[tuple[int, int], int] = {}
    for at, number in tasks:
        plan = plans[at]
        stage = plan.phases[number].stage
        turns = sum(phase.stage == stage for phase in plan.phases)
        seen[at, stage] = seen.get((at, stage), 0) + 1
        if turns > 1:
            under_way += (seen[at, stage] == 1) - (seen[at, stage] == 2)
        most = max(most, under_way)
    return most
