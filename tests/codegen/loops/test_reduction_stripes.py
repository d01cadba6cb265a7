"""How much of a row passes along columns read before they go to the next one."""

from __future__ import annotations

from dataclasses import replace

from loops_harness import MASKED, graph_of, group_of, param

from xlac.codegen.claims import kind_taken
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.reduction_plan import ReductionSpace
from xlac.codegen.cpu import reduction_choice
from xlac.codegen.cpu.row_reduction import Rows
from xlac.codegen.lower import lower
from xlac.codegen.schedules.reduction import RowReductionSchedule
from xlac.fusion.group import Kind
from xlac.fusion.partition import partition
from xlac.ops import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Load, statements
from xlac_sdk.kernel_ir.sharing import roots, walk
from xlac_sdk.target import Target

WIDE = replace(MASKED, vector_bytes=64, vector_registers=32)


def chosen(rows: int, target: Target, steps: int = 3) -> RowReductionSchedule:
    """The loops of a variance of so many rows, and of so many steps that follow it."""
    x = param("x", (rows, 64))
    gap = build.sub(x, build.reduce(x, "add", (0,), True))
    spread = build.reduce(build.mul(gap, gap), "add", (0,), True)
    y = build.mul(gap, spread)
    for _ in range(steps):
        y = build.maximum(build.add(build.mul(y, y), x), 0.0)
    (group,) = partition(graph_of(y), target, kind_taken=kind_taken).groups
    elements = Elements(Builder(), group, target)
    schedule = reduction_choice.choose(Rows(elements, ReductionSpace.of(group)))
    assert isinstance(schedule, RowReductionSchedule)
    return schedule


def stripe(rows: int, target: Target, steps: int = 3) -> int:
    """Bytes of a row that are read before the next row is gone to."""
    return chosen(rows, target, steps).unroll[0] * WIDE.vector_bytes


def test_a_stripe_of_long_columns_is_several_cache_lines() -> None:
    """However much is computed for each element."""
    assert stripe(5000, WIDE) >= reduction_choice.STRIPE
    assert stripe(5000, WIDE, steps=30) >= reduction_choice.STRIPE


def test_columns_that_stay_in_a_cache_are_as_they_were() -> None:
    assert stripe(50, WIDE) < reduction_choice.STRIPE
    assert stripe(5000, replace(WIDE, size=True)) < reduction_choice.STRIPE


def test_columns_of_which_much_is_computed_are_one_long_vector() -> None:
    """Whose parts take turns instruction by instruction, as in a group without reductions. The
    columns that remain are not padded to such a vector: every row would compute the padding.
    """
    assert chosen(50, WIDE, steps=30).join
    assert chosen(50, WIDE, steps=30).unroll[0] > 1
    assert not chosen(50, WIDE).join

    def widths(columns: int) -> set[int]:
        """Lanes of what is loaded, where so many columns are summed."""
        y = build.exp(build.exp(param("x", (20, columns))))
        (launch,) = lower(group_of(Kind.REDUCE, build.reduce(y, "add", (0,))), WIDE, "k").launches
        exprs = [e for s in statements(launch.kernel.body) for e in walk(roots(s))]
        return {e.lanes for e in exprs if isinstance(e, Load)}

    assert widths(256) == {64}
    assert widths(256 + 3 * 16) == {64, 16}
    assert widths(256 + 2 * 16 + 5) == {64, 16}


def test_sums_side_by_side_stay_in_registers() -> None:
    """As those of a depthwise gradient for weights: one for each tap."""
    x, y = param("x", (50, 64)), param("y", (50, 64))
    values = [build.mul(build.add(build.mul(x, float(n)), y), y) for n in range(9)]
    sums = [build.reduce(value, "add", (0,)) for value in values]
    (made,) = partition(graph_of(*sums), WIDE, kind_taken=kind_taken).groups
    elements = Elements(Builder(), made, WIDE)
    schedule = reduction_choice.choose(Rows(elements, ReductionSpace.of(made)))
    assert isinstance(schedule, RowReductionSchedule)
    assert len(sums) * schedule.unroll[0] <= WIDE.vector_registers
