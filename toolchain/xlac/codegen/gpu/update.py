"""A slice replaced, on a GPU: a thread for every vector of the slice."""

from __future__ import annotations

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.kinds import update
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.gpu.core.grid import every, power_of_two
from xlac.codegen.schedules.decisions import Decisions
from xlac.fusion.group import Group
from xlac.ir.dims import divisor, size_hint
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.target import Target


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """A copy of the operand, unless it is there already, then one launch for the slice."""
    return update.lower(group, target, name, lower_part, _write)


def _write(elements: Elements, new: Group, name: str, decisions: Decisions) -> None:
    group, target = elements.group, elements.target
    anchor = group.anchor
    x, value = anchor.inputs[:2]
    sizes = value.shape
    buffer = update.updated(elements)
    lanes = 1
    # the rows of the slice are rows of what is updated, so vectors are aligned
    if sizes and sizes[-1] == x.shape[-1]:
        lanes = power_of_two(
            min(
                max(1, target.access_bytes // value.type.dtype.nbytes), max(1, size_hint(sizes[-1]))
            )
        )
        while divisor(sizes[-1]) % lanes:
            lanes //= 2
    loops = [Run(n // lanes if a == len(sizes) - 1 else n, (a,)) for a, n in enumerate(sizes)]
    with every(elements.builder, target, loops) as counters:
        firsts = update.clamped_starts(elements, group)
        spot: list[Expr] = [counters[run] for run in loops]
        if loops:
            spot[-1] = build.ramp(build.mul(spot[-1], lanes), 1, lanes)
        at = tuple(spot)
        elements.store_to(buffer, update.place_in(at, firsts, x.shape), elements.at(value, at))
