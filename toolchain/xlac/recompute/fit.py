"""A program in an order of its groups that takes little memory, and within a limit where there is
one: some groups are computed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xlac.codegen.kernel_dedup import LoweringCache
from xlac.fusion.group import Group, Partition
from xlac.memory.arena import ALIGN
from xlac.memory.limit import MemoryLimit, check
from xlac.recompute.measure import Measured, measured
from xlac.recompute.order import least_memory
from xlac.recompute.problem import usage
from xlac.recompute.rebuild import rebuilt
from xlac.recompute.reorder import Planner, in_less_memory, in_order
from xlac.recompute.search import RecomputePlan, planned
from xlac_sdk.programs.program import Program
from xlac_sdk.support.limits import checkpoint

TURNS = 4  # limits tried for a plan whose arena comes out larger than its values at once


@dataclass(frozen=True, slots=True)
class Unlimited:
    """A partition, its program as it is without a limit, and what each group needs for itself."""

    partition: Partition
    program: Program
    needs: Sequence[int]


@dataclass(frozen=True, slots=True)
class Fitted:
    """A partition and its program; `fits` says whether the arena is within the limit. Otherwise it
    is the smallest that was found, and `peak` is computed when most is in memory.
    """

    partition: Partition
    program: Program
    fits: bool
    peak: Group


def settled(
    partition: Partition,
    planner: Planner,
    lowering: LoweringCache,
    state: Mapping[str, str],
    limit: MemoryLimit | None = None,
) -> tuple[Partition, Program]:
    """A partition and its program, in an order that takes less memory where one is found, and
    within the limit. Raises LimitError where that cannot be.
    """
    groups, found = in_less_memory(partition, planner(partition), planner, lowering, state)
    program = found.placed()
    if limit is None or limit.holds(program):
        return groups, program
    return within_memory(limit, Unlimited(groups, program, found.needs), planner, lowering, state)


def within_memory(
    limit: MemoryLimit,
    given: Unlimited,
    planner: Planner,
    lowering: LoweringCache,
    state: Mapping[str, str],
) -> tuple[Partition, Program]:
    """A partition and its program within a limit. Groups that are computed again give what they
    gave the first time, so neither they nor the order change a bit of what is computed.

    Raises LimitError where nothing is found that takes so little: it names what does.
    """
    room = limit.arena(given.program)
    if room < 0:
        check(given.program, limit.nbytes - limit.beside, limit.weights_in_memory)
    found = fitted(given, room, planner, lowering, state)
    if not found.fits:
        place = next((n.origin for n in (found.peak.anchor, *found.peak.nodes) if n.origin), None)
        check(found.program, limit.nbytes - limit.beside, limit.weights_in_memory, place)
    return found.partition, found.program


def fitted(
    given: Unlimited,
    limit: int,
    planner: Planner,
    lowering: LoweringCache,
    state: Mapping[str, str],
) -> Fitted:
    """The program of a partition whose arena takes at most `limit` bytes, or as little as was
    found.
    """
    checkpoint("what to compute again")
    partition = given.partition
    whole = measured(partition, lowering, lowering.target, state, given.needs)
    ordered = in_order(whole, least_memory(whole.problem))
    problem, groups = ordered.problem, ordered.groups
    plan = RecomputePlan(tuple(range(problem.required)), problem.cost, False)
    best: Fitted | None = None
    asked, searched = limit, False
    largest = max(map(problem.least, range(problem.required)), default=0)
    for _ in range(TURNS):
        made = rebuilt(partition, ordered, plan.sequence)
        program = planner(made).placed()
        used = usage(problem, plan.sequence)
        if best is None or program.arena_bytes < best.program.arena_bytes:
            facts = {**program.facts, "recomputed": told(ordered, plan)}
            peak = groups[plan.sequence[used.index(max(used))]]
            best = Fitted(made, replace(program, facts=facts), program.arena_bytes <= limit, peak)
        if best.fits:
            break
        # what the arena takes beside what is in memory at once: gaps, less what is counted twice
        beside = program.arena_bytes - max(used)
        if not searched:
            asked = limit - beside
        elif plan.fits:
            asked = min(asked - ALIGN, limit - beside)
        elif asked > largest:  # from further down there may be a way
            asked = max(largest, asked * 3 // 4)
        else:
            break
        plan, searched = planned(problem, max(asked, largest)), True
    assert best is not None
    return best


def told(problem: Measured, plan: RecomputePlan) -> dict[str, Any]:
    """What of a plan a program says: by how much a call takes longer, by the estimate that it was
    chosen by, and which nodes are computed again, how often.
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
    """A group as people know it: the path of what decides its kind, or another of its nodes."""
    names = [node.name for node in (group.anchor, *group.nodes) if node.name]
    return names[0] if names else group.anchor.op.mnemonic
