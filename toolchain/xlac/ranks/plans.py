"""What `xlac plan` prints: plans with their exact memory, and the sections of the best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xlac.model import Model
from xlac.ranks.program import memory_of, rank_program
from xlac.spmd.mesh import Sharding
from xlac.spmd.search import MeshPlan, PlanSearch, too_large
from xlac_sdk.backend import Backend


@dataclass(frozen=True, slots=True)
class LoweredPlan:
    """A plan, and the bytes that each rank needs, of its compiled program."""

    plan: MeshPlan
    memory: int


def lowered_plans(
    search: PlanSearch, model: Model, ranks: int, count: int, backend: Backend
) -> list[LoweredPlan]:
    """The `count` best plans whose programs fit the limit of the search. Raises SourceError where
    none does.
    """
    found: list[LoweredPlan] = []
    least: list[int] = []
    for plan in search.plans(model, ranks):
        program = rank_program(plan.model, plan.mesh, 0, backend, search.target)
        memory = sum(memory_of(program).values())
        least.append(memory)
        if search.limit is None or memory <= search.limit:
            found.append(LoweredPlan(plan, memory))
        if len(found) == count:
            break
    if not found:
        raise too_large(min(least), search.limit)
    return found


def tell_plans(search: PlanSearch, model: Model, ranks: int, plans: list[LoweredPlan]) -> str:
    """A line for each plan, and what the best one is in a spec. `efficiency` is the time of one
    process divided by that of all ranks together.
    """
    alone = search.alone(model)
    about = f"links of {search.link}; each computes {search.device}"
    columns = f"{'step':>12} {'compute':>12} {'wire':>12} {'hidden':>7} {'efficiency':>10}"
    lines = [
        f"{ranks} ranks; {about}; one process: {_time(alone)}",
        f"{columns} {'memory':>18}  mesh",
    ]
    for one in plans:
        plan = one.plan
        share = alone / (ranks * plan.seconds) if plan.seconds else 1.0
        time = plan.time
        hidden = time.hidden / time.wire if time.wire else 0.0
        lines.append(
            f"{_time(time.seconds):>12} {_time(time.compute):>12} {_time(time.wire):>12} "
            f"{hidden:>7.1%} {share:>10.1%} {one.memory:>12,} bytes  {plan.mesh}"
        )
    best = plans[0].plan
    lines.append("mesh: {" + ", ".join(f"{name}: {size}" for name, size in best.mesh.axes) + "}")
    if best.chosen:
        lines.append("shard:")
        lines += [f'  "{name}": {axes}' for name, axes in _patterns(best.chosen).items()]
    return "\n".join(lines)


def _patterns(chosen: Mapping[str, Sharding]) -> dict[str, str]:
    """Shardings by name as a spec writes them."""
    return {
        name: "[" + ", ".join(names[0] if names else "null" for names in axes) + "]"
        for name, axes in chosen.items()
    }


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:,.1f} us"
