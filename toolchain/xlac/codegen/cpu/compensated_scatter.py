"""Compensated scatter-add: a second array holds the rounding errors of each element's sum.

Updates of one element are added in their order, so the result is the same every time and for any
number of threads. 16-bit floats are summed in f32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlac.codegen.core.elements import Elements
from xlac.codegen.core.loop_nest import nest, piece, pieces_of
from xlac.codegen.core.lowered_group import KernelLaunch, Scratch, Value
from xlac.codegen.core.strip_mining import strip_mine
from xlac.codegen.core.summation import two_sum, whole
from xlac.codegen.cpu.scatter_ordered import OrderedUpdates
from xlac.codegen.schedules.scatter import CompensatedScatterSchedule
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target


def launches(
    group: Group,
    target: Target,
    name: str,
    results: Sequence[Value],
    schedule: CompensatedScatterSchedule,
) -> list[KernelLaunch]:
    """Clears the second array, adds the updates in order, and adds both arrays."""
    (result,), (type_,) = results, group.anchor.results
    dtype, size = type_.dtype.compute, type_.size
    low = Scratch(dtype, size, "lost")
    high: Value = Scratch(dtype, size, "sums") if type_.dtype.is_half else result

    def swept(suffix: str, work: Callable[[Elements, Expr], None]) -> KernelLaunch:
        elements = Elements(Builder(), group, target)
        each = schedule.sweep.piece
        pieces = pieces_of(size, each)
        with nest(elements.builder, [pieces], schedule.sweep.threads) as counters:
            start = build.mul(counters[pieces], each)

            def strip(bases: Sequence[Expr], wide: int, mask: Expr | None) -> None:
                with elements.masked(mask):
                    for base in bases:
                        work(elements, build.ramp(base, 1, wide))

            length = piece(elements.builder, start, size, each)
            strip_mine(elements.builder, target, start, length, schedule.sweep_lanes, 1, strip)
        return elements.launch(f"{name}_{suffix}")

    def clear(elements: Elements, at: Expr) -> None:
        elements.store_to(elements.parameter(low, Access.WRITE), at, Const(0.0, dtype, at.lanes))
        if high is not result:
            elements.store_to(
                elements.parameter(high, Access.WRITE),
                at,
                elements.load(elements.parameter(result, Access.READ), at),
            )

    def finish(elements: Elements, at: Expr) -> None:
        builder = elements.builder
        total = elements.parameter(result, Access.UPDATE if high is result else Access.WRITE)
        first = builder.let(
            "high",
            elements.load(total if high is result else elements.parameter(high, Access.READ), at),
        )
        lost = builder.let("low", elements.load(elements.parameter(low, Access.READ), at))
        elements.store_to(total, at, whole(builder, first, lost))

    elements = Elements(Builder(), group, target)
    _CompensatedUpdates(elements, [high], low).write(schedule)
    return [swept("clear", clear), elements.launch(name, cost.work(group)), swept("finish", finish)]


class _CompensatedUpdates(OrderedUpdates):
    """Adds the updates in their order, with the rounding error of every addition."""

    def __init__(self, elements: Elements, results: Sequence[Value], low: Scratch) -> None:
        super().__init__(elements, results)
        self.low = low

    def combine(self, place: Expr, news: Sequence[Expr]) -> None:
        builder, elements = self.builder, self.elements
        (high,), low = self.buffers, elements.parameter(self.low, Access.UPDATE)
        old = builder.let("old", elements.load(high, place))
        total, lost = two_sum(builder, old, news[0])
        elements.store_to(high, place, total)
        elements.store_to(low, place, build.apply(Primitive.ADD, elements.load(low, place), lost))
