"""dynamic_update_slice on a GPU: a thread for every vector of the slice."""

from __future__ import annotations

from functools import partial

from xlac.codegen.core.elements import Elements
from xlac.codegen.core.kinds import update
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.gpu.core.access_width import check_lanes, vectors_of, widest_lanes
from xlac.codegen.gpu.core.grid import check_threads, every, threads_over
from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.gpu.threads import GpuUpdateSchedule
from xlac.fusion.group import Group
from xlac.ir.graph import Node
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.target import Target


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """A copy of the operand, unless it can be updated in place, then one launch for the slice."""
    return update.lower(group, target, name, lower_part, _write)


def _write(elements: Elements, new: Group, name: str, decisions: Decisions) -> None:
    group, target = elements.group, elements.target
    anchor = group.anchor
    x, value = anchor.inputs[:2]
    sizes = value.shape
    buffer = update.updated(elements)
    schedule = decisions.settle(name, _choose(x, value, target), partial(_check, value, target))
    lanes, loops = schedule.lanes, vectors_of(sizes, schedule.lanes)
    with every(elements.builder, target, loops, schedule.threads) as counters:
        firsts = update.clamped_starts(elements, group)
        spot: list[Expr] = [counters[run] for run in loops]
        if loops:
            spot[-1] = build.ramp(build.mul(spot[-1], lanes), 1, lanes)
        at = tuple(spot)
        elements.store_to(buffer, update.place_in(at, firsts, x.shape), elements.at(value, at))


def _choose(x: Node, value: Node, target: Target) -> GpuUpdateSchedule:
    """Vectors if the rows of the slice are whole rows of the operand, and so aligned."""
    sizes, lanes = value.shape, 1
    if sizes and sizes[-1] == x.shape[-1]:
        lanes = widest_lanes(target, value.type.dtype.nbytes, sizes[-1])
    return GpuUpdateSchedule(lanes, threads_over(target, vectors_of(sizes, lanes)))


def _check(value: Node, target: Target, schedule: GpuUpdateSchedule) -> None:
    """Raises Misfit unless rows of the slice consist of whole vectors."""
    check_lanes(schedule.lanes, value.shape[-1] if value.shape else 1, target, alone=False)
    check_threads(schedule.threads, target)
