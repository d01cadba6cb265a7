"""The order in which the groups of a program run: another than that of the graph where it takes
less memory. Kernels and results are the same.
"""

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

WORTH = 1 / 64  # of the memory has to be saved, or the order stays
MANY = 4000  # groups of which more stay in their order: comparing them would take too long

Planner = Callable[[Partition], UnplacedProgram]
"""The memory plan of a partition: `planner.unplaced`."""


def in_less_memory(
    partition: Partition,
    given: UnplacedProgram,
    planner: Planner,
    lowering: LoweringCache,
    state: Mapping[str, str],
) -> tuple[Partition, UnplacedProgram]:
    """A partition and its program, of which `given` is the one as it stands, in an order that takes
    less memory, or as they are where none is found that is worth it.
    """
    if not 2 < len(partition.groups) <= MANY or not given.live_bytes:
        return partition, given
    whole = measured(partition, lowering, lowering.target, state, given.needs)
    problem = whole.problem
    most = max(usage(problem, range(problem.required)), default=0)
    if most - max(map(problem.least, range(problem.required)), default=0) <= WORTH * most:
        return partition, given
    ordered = in_order(whole, least_memory(problem))
    problem = ordered.problem
    if most - max(usage(problem, range(problem.required))) <= WORTH * most:
        return partition, given
    made = rebuilt(partition, ordered, range(problem.required))
    found = planner(made)
    # the plan knows of copies that the problem does not
    if given.live_bytes - found.live_bytes <= WORTH * given.live_bytes:
        return partition, given
    return made, found


def in_order(whole: Measured, order: Sequence[int]) -> Measured:
    """A partition measured, with its required tasks in another order."""
    groups = [whole.groups[number] for number in order] + whole.groups[len(order) :]
    return replace(whole, problem=reordered(whole.problem, order), groups=groups)
