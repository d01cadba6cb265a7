"""Scattered sums of floats: many updates may meet at one place, and keep their digits there.

Single elements, and many updates of a small operand: a second array holds what the roundings of
each place's sum have lost (**beside**). Windows: the updates are counted by place, so that those of
one place follow each other, and each place adds its own in blocks (**counted**). Where places are
very many beside the updates these are sorted by place instead (**sorted**). Those of one place
always meet in their order: the result is the same every time and for any number of threads. Halves
are summed in f32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlac.codegen.core.elements import Elements
from xlac.codegen.core.loop_nest import parallel_loops, piece, pieces_of
from xlac.codegen.core.lowered_group import KernelLaunch, LowerPart, Scratch, Value
from xlac.codegen.core.scatter import Updates
from xlac.codegen.core.strip_mining import lanes_for, strip_mine
from xlac.codegen.core.summation import BLOCK, compensated, two_sum, whole
from xlac.codegen.cpu.scatter_sorted import CountedScatter, CpuSortedScatter
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import size_hint, upper_bound, volume
from xlac.ops.tensor.scatter import Scatter
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive
SPARSE = 16  # places for each update beyond which their number is not to count in time or memory
# elements of an operand that stays in a near cache with a second array, for so many updates each
NEAR, MANY = 1 << 14, 4
# elements of a window in a row below which a second array is cheaper than going from place to place
NARROW = 8
PIECE = 1 << 13  # elements that a thread clears or finishes


def launches(
    group: Group, target: Target, name: str, lower_part: LowerPart, results: Sequence[Value]
) -> list[KernelLaunch] | None:
    """The launches that add the updates to a result that holds the operand; None where only few may
    meet at a place.
    """
    op, dtype = group.anchor.op, group.anchor.results[0].dtype
    assert isinstance(op, Scatter)
    if op.body is not None or op.unique or not compensated(op.combine, dtype):
        return None
    by_place, updates = (
        CpuSortedScatter(group, target, results, lower_part),
        Updates(Elements(Builder(), group, target), results),
    )
    if upper_bound(by_place.count) <= (1 if dtype.is_half else BLOCK):
        return None
    inside, outside = size_hint(volume(updates.shape)), size_hint(volume(updates.sizes))
    if inside > SPARSE * outside:
        return by_place.launches(name)
    near = inside <= NEAR and MANY * inside <= outside
    if near or not by_place.columns or size_hint(updates.sizes[-1]) < NARROW:
        return _beside(group, target, name, results)
    return CountedScatter(group, target, results, lower_part).launches(name)


# ---- with a second array -------------------------------------------------------------------------


def _beside(
    group: Group, target: Target, name: str, results: Sequence[Value]
) -> list[KernelLaunch]:
    """The second array cleared, the updates in their order, and both arrays made one."""
    (result,), (type_,) = results, group.anchor.results
    dtype, size = type_.dtype.compute, type_.size
    low = Scratch(dtype, size, "lost")
    high: Value = Scratch(dtype, size, "sums") if type_.dtype.is_half else result

    def swept(suffix: str, work: Callable[[Elements, Expr], None]) -> KernelLaunch:
        elements = Elements(Builder(), group, target)
        pieces = pieces_of(size, PIECE)
        with parallel_loops(elements.builder, target, [pieces], PIECE) as counters:
            start = build.mul(counters[pieces], PIECE)

            def strip(bases: Sequence[Expr], wide: int, mask: Expr | None) -> None:
                with elements.masked(mask):
                    for base in bases:
                        work(elements, build.ramp(base, 1, wide))

            strip_mine(
                elements.builder,
                target,
                start,
                piece(elements.builder, start, size, PIECE),
                lanes_for(target, [dtype], size),
                1,
                strip,
            )
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
    _Kept(elements, [high], low).write()
    return [swept("clear", clear), elements.launch(name, cost.work(group)), swept("finish", finish)]


class _Kept(Updates):
    """Writes the kernel that adds the updates in their order, with what every addition loses."""

    def __init__(self, elements: Elements, results: Sequence[Value], low: Scratch) -> None:
        super().__init__(elements, results)
        self.low = low

    def combine(self, place: Expr, news: Sequence[Expr]) -> None:
        builder, elements = self.builder, self.elements
        (high,), low = self.buffers, elements.parameter(self.low, Access.UPDATE)
        old = builder.let("old", elements.load(high, place))
        total, lost = two_sum(builder, old, news[0])
        elements.store_to(high, place, total)
        elements.store_to(low, place, build.apply(P.ADD, elements.load(low, place), lost))
