"""Scatter on a CPU: updates in order, or grouped by position (`scatter_choice.py` decides)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xlac.codegen.core import scatter
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.lowered_group import KernelLaunch, LoweredGroup, LowerPart, Value
from xlac.codegen.cpu import compensated_scatter
from xlac.codegen.cpu.scatter_choice import check, choose, every_template
from xlac.codegen.cpu.scatter_ordered import OrderedUpdates
from xlac.codegen.cpu.scatter_sorted import CountedScatter, MergeSortedScatter
from xlac.codegen.schedules.scatter import (
    SCATTERS,
    CompensatedScatterSchedule,
    CountedScatterSchedule,
    OrderedScatterSchedule,
    ScatterSchedule,
    SortedScatterSchedule,
)
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.target import Target


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """A copy of every operand, then the launches for the updates."""
    return scatter.lower(group, target, name, lower_part, _launches)


def _launches(
    group: Group, target: Target, name: str, lower_part: LowerPart, results: Sequence[Value]
) -> list[KernelLaunch]:
    """The launches by the group's schedule."""
    fits = partial(check, group=group, target=target, results=results)
    schedule: ScatterSchedule = lower_part.decisions.settle(
        name,
        choose(group, target, results),
        fits,
        SCATTERS,
        partial(every_template, group, target, results),
    )
    match schedule:
        case CompensatedScatterSchedule():
            return compensated_scatter.launches(group, target, name, results, schedule)
        case CountedScatterSchedule():
            return CountedScatter(group, target, results, schedule).launches(name)
        case SortedScatterSchedule():
            return MergeSortedScatter(group, target, results, schedule, lower_part).launches(name)
        case OrderedScatterSchedule():
            elements = Elements(Builder(), group, target)
            OrderedUpdates(elements, results).write(schedule)
            return [elements.launch(name, cost.work(group))]
