"""Scatter on a CPU: sums of floats where many updates may meet are `scatter_add`'s, other updates run
one after another.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlac.codegen.core import scatter
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.lowered_group import KernelLaunch, LoweredGroup, LowerPart, Value
from xlac.codegen.core.scatter import Updates
from xlac.codegen.cpu import scatter_add
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
    """Sums of many so that they keep their digits; all else in order."""
    found = (
        scatter_add.launches(group, target, name, lower_part, results)
        if len(results) == 1
        else None
    )
    return _in_order(group, target, name, results) if found is None else found


def _in_order(
    group: Group, target: Target, name: str, results: Sequence[Value]
) -> list[KernelLaunch]:
    """One launch."""
    elements = Elements(Builder(), group, target)
    Updates(elements, results).write()
    return [elements.launch(name, cost.work(group))]
