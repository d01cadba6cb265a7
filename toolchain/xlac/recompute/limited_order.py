"""Orders of tasks for a memory limit: what lies above the limit has to be recomputed, so the less
of it and the shorter, the better. The order with the lowest peak may hold more for longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xlac.recompute.order import Precedence
from xlac.recompute.problem import Problem, usage
from xlac_sdk.support.limits import count_work

WORK = 4_000_000  # places of tasks in orders that a search may look at
SWEEPS = 4
WORTH = 1 / 1000  # the share that a sweep must save, or the search ends


def least_above(problem: Problem, order: Sequence[int], limit: int) -> list[int]:
    """An order of the required tasks with fewer bytes above the limit, summed over tasks, than
    `order` has; or that order. Tasks are moved where that saves bytes: as early as they can run, or
    else as late. Each task is tried, the last first, then all readers of each buffer together, the
    largest buffer first, since the buffer is freed only when the last of them has run.
    """
    precedence, best = Precedence(problem), list(order)
    above, left = bytes_above(problem, best, limit), WORK
    readers = _readers(problem, precedence)
    for _ in range(SWEEPS):
        before = above
        for tasks in [*([number] for number in reversed(best)), *readers]:
            for moved in _moves(precedence, best, tasks):
                left -= len(best) * len(tasks)
                count_work()
                now = bytes_above(problem, moved, limit)
                if now < above:
                    best, above = moved, now
                    break
            if left <= 0:
                return best
        if before - above <= WORTH * before:
            break
    return best


def bytes_above(problem: Problem, order: Sequence[int], limit: int) -> int:
    """Bytes in memory beyond the limit, summed over tasks."""
    return sum(max(0, used - limit) for used in usage(problem, order))


def _readers(problem: Problem, precedence: Precedence) -> list[list[int]]:
    """The tasks that read each buffer which has several readers, the largest buffer first."""
    largest = sorted(range(len(problem.nbytes)), key=lambda buffer: -problem.nbytes[buffer])
    readers = [precedence.readers[buffer] for buffer in largest if problem.nbytes[buffer]]
    return [list(tasks) for tasks in dict.fromkeys(map(tuple, readers)) if len(tasks) > 1]


def _moves(precedence: Precedence, order: list[int], tasks: Iterable[int]) -> Iterator[list[int]]:
    """The order with some tasks as early as they can run, and as late, where it differs."""
    first_to_last = sorted(tasks, key=order.index)
    for moved in (
        _moved(precedence, order, first_to_last, late=False),
        _moved(precedence, order, first_to_last[::-1], late=True),
    ):
        if moved != order:
            yield moved


def _moved(precedence: Precedence, order: list[int], tasks: Iterable[int], late: bool) -> list[int]:
    """The order with each of some tasks in turn just after the last one that it needs, or, if
    `late`, just before the first one that needs it.
    """
    for number in tasks:
        rest = [other for other in order if other != number]
        place = {other: position for position, other in enumerate(rest)}
        if late:
            to = min((place[other] for other in precedence.after[number]), default=len(rest))
        else:
            to = max((place[other] + 1 for other in precedence.before[number]), default=0)
        order = [*rest[:to], number, *rest[to:]]
    return order
