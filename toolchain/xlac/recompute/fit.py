"""Orders a program's groups so that it needs little memory, and fits it within a memory limit by
recomputing some of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xlac.codegen.kernel_dedup import LoweringCache
from xlac.fusion.group import Group, Partition
from xlac.memory.arena import ALIGN
from xlac.memory.limit import MemoryLimit, check
from xlac.memory.unplaced import Planner
from xlac.recompute.limited_order import least_above
from xlac.recompute.measure import Measured, in_order, measured
from xlac.recompute.order import least_memory
from xlac.recompute.overlap import overlapped
from xlac.recompute.problem import usage
from xlac.recompute.rebuild import rebuilt
from xlac.recompute.reorder import in_less_memory
from xlac.recompute.search import RecomputePlan, planned
from xlac_sdk.programs.program import Program
from xlac_sdk.support.limits import checkpoint

ATTEMPTS = 5  # of plans: an arena can be larger than its live values, so the target is lowered


@dataclass(frozen=True, slots=True)
class Unlimited:
    """A partition, its program without a limit, and the scratch memory of each group in bytes."""

    partition: Partition
    program: Program
    needs: Sequence[int]


@dataclass(frozen=True, slots=True)
class Fitted:
    """A partition and its program. `fits`: its arena is within the limit; else it is the smallest
    arena found. `peak` is the group that runs when memory usage is highest.
    """

    partition: Partition
    program: Program
    fits: bool
    peak: Group


def fit_memory(
    partition: Partition,
    planner: Planner,
    lowering: LoweringCache,
    state: Mapping[str, str],
    limit: MemoryLimit | None = None,
) -> tuple[Partition, Program]:
    """A partition and its program, reordered where that saves memory, and where it hides
    collectives, and fitted within the limit, if any. `state` maps state tensors to the outputs that
    are their next values. Raises LimitError where the limit cannot be met.
    """
    groups, planned = in_less_memory(partition, planner(partition), planner, lowering, state)
    hidden = overlapped(groups)
    if hidden is not groups:
        groups, planned = hidden, planner(hidden)
    program = planned.placed()
    if limit is None or limit.holds(program):
        return groups, program
    return within_memory(limit, Unlimited(groups, program, planned.needs), planner, lowering, state)


def within_memory(
    limit: MemoryLimit,
    given: Unlimited,
    planner: Planner,
    lowering: LoweringCache,
    state: Mapping[str, str],
) -> tuple[Partition, Program]:
    """A partition and its program within a limit. Recomputed groups use the same kernels, so
    results are the same to the bit.

    Raises LimitError, which names the largest values, where no such program is found.
    """
    room = limit.arena(given.program)
    if room < 0:
        check(given.program, limit.nbytes - limit.beside, limit.weights_in_memory)
    fit = fitted(given, room, planner, lowering, state)
    if not fit.fits:
        place = next((n.origin for n in (fit.peak.anchor, *fit.peak.nodes) if n.origin), None)
        check(fit.program, limit.nbytes - limit.beside, limit.weights_in_memory, place)
    return fit.partition, fit.program


def fitted(
    given: Unlimited,
    limit: int,
    planner: Planner,
    lowering: LoweringCache,
    state: Mapping[str, str],
) -> Fitted:
    """The program of a partition with an arena of at most `limit` bytes, from an order of its
    groups for this limit, else from that with the lowest peak; or the smallest found.
    """
    checkpoint("what to compute again")
    lowered = lowering.lowered(given.partition)
    whole = measured(given.partition, lowered, lowering.target, state, given.needs)
    lowest = least_memory(whole.problem)
    found = []
    for order in (least_above(whole.problem, lowest, limit), lowest):
        found.append(_fitted(given.partition, in_order(whole, order), limit, planner))
        if found[-1].fits or order == lowest:
            break
    return min(found, key=lambda one: (not one.fits, one.program.arena_bytes))


def _fitted(partition: Partition, ordered: Measured, limit: int, planner: Planner) -> Fitted:
    """The same from one order."""
    problem, groups = ordered.problem, ordered.groups
    plan = RecomputePlan(tuple(range(problem.required)), problem.cost, False)
    best: Fitted | None = None
    target, searched, step = limit, False, ALIGN
    largest = max(map(problem.least, range(problem.required)), default=0)
    for _ in range(ATTEMPTS):
        partition_now = rebuilt(partition, ordered, plan.sequence)
        unplaced = planner(partition_now)
        program = unplaced.placed(limit)
        used = usage(problem, plan.sequence)
        if best is None or program.arena_bytes < best.program.arena_bytes:
            facts = {**program.facts, "recomputed": facts_of(ordered, plan)}
            peak = groups[plan.sequence[used.index(max(used))]]
            fits = program.arena_bytes <= limit
            best = Fitted(partition_now, replace(program, facts=facts), fits, peak)
        if best.fits:
            break
        # the arena against the peak of live values: more by fragmentation, less where counted twice
        overhead = program.arena_bytes - max(used)
        if not searched:  # an arena within the limit is searched for, so gaps count later
            target = limit - (unplaced.live_bytes - max(used))
        elif plan.fits:
            # gaps may take what a slightly lower target saves, so steps are doubled
            step = max(2 * step, target - (limit - overhead))
            target -= step
        elif target > largest:  # a search for a lower target can end in a better plan
            target = max(largest, target * 3 // 4)
        else:
            break
        plan, searched = planned(problem, max(target, largest)), True
    assert best is not None
    return best


def facts_of(problem: Measured, plan: RecomputePlan) -> dict[str, Any]:
    """The plan in the program's facts: `factor`, by which a call takes longer by the cost estimate,
    and `nodes`, which are recomputed, with how often.
    """
    count: dict[str, int] = {}
    done: set[int] = set()
    for number in plan.sequence:
        if number in done or number >= problem.problem.required:
            name = label(problem.groups[number])
            count[name] = count.get(name, 0) + 1
        done.add(number)
    return {"factor": round(plan.cost / problem.problem.cost, 4), "nodes": count}


def label(group: Group) -> str:
    """A name of a group for users: that of its anchor, or else of another of its nodes."""
    names = [node.name for node in (group.anchor, *group.nodes) if node.name]
    return names[0] if names else group.anchor.op.mnemonic
