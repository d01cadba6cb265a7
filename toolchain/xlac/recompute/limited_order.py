"""Orders of tasks for a memory limit: what lies above the limit has to be recomputed, so the less
of it and the shorter, the better. The order with the lowest peak may hold more for longer.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlac.recompute.order import Precedence
from xlac.recompute.problem import Problem, usage
from xlac_sdk.support.limits import count_work

WORK = 1_000_000  # tasks whose memory a search may count
SWEEPS = 4
WORTH = 1 / 1000  # the share that a sweep must save, or the search ends


def least_above(problem: Problem, order: Sequence[int], limit: int) -> list[int]:
    """An order of the required tasks with fewer bytes above the limit, summed over tasks, than
    `order` has; or that order. Each task in turn, the last first, is moved to just after the last
    one that it needs, or else to just before the first one that needs it, where that saves bytes.
    """
    precedence, best = Precedence(problem), list(order)
    above, left = bytes_above(problem, best, limit), WORK
    for _ in range(SWEEPS):
        before = above
        for number in reversed(list(best)):
            for moved in _moves(precedence, best, number):
                left -= len(best)
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


def _moves(precedence: Precedence, order: list[int], number: int) -> list[list[int]]:
    """The order with a task as early as it can run, and as late."""
    at = order.index(number)
    rest = order[:at] + order[at + 1 :]
    place = {other: position for position, other in enumerate(rest)}
    early = max((place[other] + 1 for other in precedence.before[number]), default=0)
    late = min((place[other] for other in precedence.after[number]), default=len(rest))
    return [[*rest[:to], number, *rest[to:]] for to in (early, late) if to != at]
