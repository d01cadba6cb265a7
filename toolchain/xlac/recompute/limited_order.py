"""Orders of tasks for a memory limit: what lies above the limit has to be recomputed, so the less
of it and the shorter, the better. The order with the lowest peak may hold more for longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

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
    """The order with some tasks as early as they can run, and as late, where it differs; and with
    updates of state tensors before others that read the old values, which then stay until the end.
    """
    first_to_last = sorted(tasks, key=order.index)
    for moved in (
        _moved(precedence, order, first_to_last, late=False),
        _moved(precedence, order, first_to_last[::-1], late=True),
        _moved(precedence, order, first_to_last, late=False, ahead=True),
    ):
        if moved != order:
            yield moved


def _moved(
    precedence: Precedence, order: list[int], tasks: Iterable[int], late: bool, ahead: bool = False
) -> list[int]:
    """The order with each of some tasks in turn just after the last one that it needs, or, if
    `late`, just before the first one that needs it. Updates of state that come before readers of
    the old value stay so; with `ahead`, those of the tasks may come before such readers, too.
    """
    for number in tasks:
        at = {other: position for position, other in enumerate(order)}
        rest = [other for other in order if other != number]
        place = {other: position for position, other in enumerate(rest)}
        if late:
            following = _following(precedence, at, number)
            to = min((place[other] for other in following), default=len(rest))
        else:
            needed = _needed(precedence, at, number, ahead)
            to = max((place[other] + 1 for other in needed), default=0)
        order = [*rest[:to], number, *rest[to:]]
    return order


def _needed(
    precedence: Precedence, at: Mapping[int, int], number: int, ahead: bool
) -> Iterator[int]:
    """The tasks that a task comes after, in an order that has it and others `at` positions."""
    for other in precedence.before[number]:
        if (other, number) not in precedence.optional or not (ahead or at[other] > at[number]):
            yield other


def _following(precedence: Precedence, at: Mapping[int, int], number: int) -> Iterator[int]:
    """The tasks that come after a task, in such an order."""
    for other in precedence.after[number]:
        if (number, other) not in precedence.optional or at[other] > at[number]:
            yield other
