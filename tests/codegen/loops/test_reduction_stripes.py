"""How much of a row passes along columns read before they go to the next one."""

from __future__ import annotations

from dataclasses import replace

from loops_harness import MASKED, graph_of, param

from xlac.codegen.claims import kind_taken
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.reduction_plan import ReductionSpace
from xlac.codegen.cpu import reduction_choice
from xlac.codegen.cpu.row_reduction import Rows
from xlac.codegen.schedules.reduction import RowReductionSchedule
from xlac.fusion.partition import partition
from xlac.ops import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.target import Target

WIDE = replace(MASKED, vector_bytes=64, vector_registers=32)


def chosen(rows: int, target: Target) -> int:
    """Vectors at once of a variance of so many rows, and what follows it."""
    x = param("x", (rows, 64))
    gap = build.sub(x, build.reduce(x, "add", (0,), True))
    spread = build.reduce(build.mul(gap, gap), "add", (0,), True)
    y = build.mul(gap, spread)
    for _ in range(6):
        y = build.maximum(build.add(build.mul(y, y), x), 0.0)
    (group,) = partition(graph_of(y), target, kind_taken=kind_taken).groups
    elements = Elements(Builder(), group, target)
    schedule = reduction_choice.choose(Rows(elements, ReductionSpace.of(group)))
    assert isinstance(schedule, RowReductionSchedule)
    return schedule.unroll[0]


def test_a_stripe_of_long_columns_is_several_cache_lines() -> None:
    """However much is computed for each element."""
    assert chosen(5000, WIDE) * WIDE.vector_bytes >= reduction_choice.STRIPE


def test_columns_that_stay_in_a_cache_are_as_they_were() -> None:
    assert chosen(50, WIDE) * WIDE.vector_bytes < reduction_choice.STRIPE
    assert chosen(5000, replace(WIDE, size=True)) * WIDE.vector_bytes < reduction_choice.STRIPE
