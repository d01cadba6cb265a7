"""Reorders the groups of a program where that saves memory. Kernels and results are the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from xlac.codegen.kernel_dedup import LoweringCache
from xlac.fusion.group import Partition
from xlac.memory.unplaced import UnplacedProgram
from xlac.recompute.measure import Measured, measured
from xlac.recompute.order import least_memory, reordered
from xlac.recompute.problem import usage
from xlac.recompute.rebuild import rebuilt

WORTH = 1 / 64  # the share of memory that must be saved, or the order stays
MANY = 4000  # groups: with more, the order stays, since the search would take too long

Planner = Callable[[Partition], UnplacedProgram]
"""The memory plan of a partition: `planner.unplaced`."""


def in_less_memory(
    partition: Partition,
    given: UnplacedProgram,
    planner: Planner,
    lowering: LoweringCache,
    state: Mapping[str, str],
) -> tuple[Partition, UnplacedProgram]:
    """A partition and its program in an order that needs less memory; or the partition and `given`,
    its program as it is, where no order saves at least WORTH. `state` maps state tensors to the
    outputs that are their next values.
    """
    if not 2 < len(partition.groups) <= MANY or not given.live_bytes:
        return partition, given
    whole = measured(partition, lowering.lowered(partition), lowering.target, state, given.needs)
    problem = whole.problem
    most = max(usage(problem, range(problem.required)), default=0)
    if most - max(map(problem.least, range(problem.required)), default=0) <= WORTH * most:
        return partition, given
    ordered = in_order(whole, least_memory(problem))
    problem = ordered.problem
    if most - max(usage(problem, range(problem.required))) <= WORTH * most:
        return partition, given
    new_partition = rebuilt(partition, ordered, range(problem.required))
    reordered = planner(new_partition)
    # the memory plan includes copies that the problem ignores
    if given.live_bytes - reordered.live_bytes <= WORTH * given.live_bytes:
        return partition, given
    return new_partition, reordered


def in_order(whole: Measured, order: Sequence[int]) -> Measured:
    """A measured partition with its required tasks in another order."""
    groups = [whole.groups[number] for number in order] + whole.groups[len(order) :]
    return replace(whole, problem=reordered(whole.problem, order), groups=groups)
