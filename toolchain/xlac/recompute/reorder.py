"""Reorders the groups of a program where that saves memory. Kernels and results are the same."""

from __future__ import annotations

from collections.abc import Mapping

from xlac.codegen.kernel_dedup import LoweringCache
from xlac.fusion.group import Partition
from xlac.memory.unplaced import Planner, UnplacedProgram
from xlac.recompute.measure import in_order, measured
from xlac.recompute.order import least_memory
from xlac.recompute.problem import usage
from xlac.recompute.readers_first import Scheduled, readers_first
from xlac.recompute.rebuild import rebuilt

WORTH = 1 / 64  # the share of memory that must be saved, or the order stays
MANY = 4000  # groups: with more, the order stays, since the search would take too long


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
    start = Scheduled(partition, given, whole)
    best = readers_first(_listed(start, planner), partition, planner, lowering, WORTH)
    return best.partition, best.program


def _listed(given: Scheduled, planner: Planner) -> Scheduled:
    """The best of the orders of list scheduling; `given`, where none saves at least WORTH."""
    problem = given.problem.problem
    most = max(usage(problem, range(problem.required)), default=0)
    if most - max(map(problem.least, range(problem.required)), default=0) <= WORTH * most:
        return given
    ordered = in_order(given.problem, least_memory(problem))
    problem = ordered.problem
    if most - max(usage(problem, range(problem.required))) <= WORTH * most:
        return given
    partition = rebuilt(given.partition, ordered, range(problem.required))
    program = planner(partition)
    # the memory plan includes copies that the problem ignores
    if given.program.live_bytes - program.live_bytes <= WORTH * given.program.live_bytes:
        return given
    return Scheduled(partition, program, ordered)
