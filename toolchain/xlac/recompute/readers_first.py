"""Moves readers of a large value before the group that runs at the peak of memory, where that group
reads the value in its first kernels alone: the value is then freed inside the group.

The scratch memory of a task is one figure, so the search for an order does not see what happens
between the kernels of a group. The memory plan does, so these orders are planned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xlac.codegen.kernel_dedup import LoweringCache
from xlac.fusion.group import WITHOUT_KERNELS, Group, Partition
from xlac.fusion.partition import is_alias
from xlac.memory.unplaced import Planner, UnplacedProgram
from xlac.recompute.measure import Measured, in_order
from xlac.recompute.order import Precedence
from xlac.recompute.rebuild import rebuilt

PLANS = 6  # orders that are planned at most: each takes a few percent of the time of lowering


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A partition in some order, its memory plan, and its problem with tasks in that order."""

    partition: Partition
    program: UnplacedProgram
    problem: Measured


def readers_first(
    start: Scheduled, source: Partition, planner: Planner, lowering: LoweringCache, worth: float
) -> Scheduled:
    """The schedule in less memory, or as it is. Readers of a value are moved where the value takes
    the share `worth` of memory at the peak, and the order stays where it saves less.
    `source` is the partition of which the problem was made.
    """
    best, plans, better = start, 0, True
    while better:
        better = False
        for order in _orders(best, lowering, worth):
            if plans == PLANS:
                return best
            plans += 1
            problem = in_order(best.problem, order)
            partition = rebuilt(source, problem, range(len(order)))
            program = planner(partition)
            if program.live_bytes < best.program.live_bytes * (1 - worth):
                best, better = Scheduled(partition, program, problem), True
                break
    return best


def _orders(now: Scheduled, lowering: LoweringCache, worth: float) -> Iterator[list[int]]:
    """Orders in which later readers of one large operand of the group at the peak come before it,
    with what they need.
    """
    peak = _at_peak(now)
    if peak is None or len(lowering.lowered(now.partition)[peak[0]].launches) < 2:
        return
    problem, at = now.problem.problem, peak[1]
    graph = Precedence(problem)
    for buffer in sorted(problem.tasks[at].reads, key=lambda b: -problem.nbytes[b]):
        if problem.nbytes[buffer] < worth * now.program.live_bytes:
            return
        moved: set[int] = set()
        waiting = [reader for reader in graph.readers[buffer] if reader > at]
        while waiting:
            number = waiting.pop()
            if number not in moved:
                moved.add(number)
                waiting += [before for before in graph.before[number] if before >= at]
        if moved and at not in moved:
            rest = [number for number in range(at, problem.required) if number not in moved]
            yield [*range(at), *sorted(moved), *rest]


def _at_peak(now: Scheduled) -> tuple[Group, int] | None:
    """The group that runs when most memory is used, and the number of its task; None where that is
    no group with kernels.
    """
    step, task = now.program.peak_step, 0
    for group, (first, last) in zip(now.partition.groups, now.program.times, strict=True):
        if is_alias(group):
            continue
        if first <= step <= last and group.kind not in WITHOUT_KERNELS:
            return group, task
        task += 1
    return None
