"""The positions of true elements on a GPU, by a running count: a segment of the mask for each
block.
"""

from __future__ import annotations

from functools import partial

from xlac.codegen.core.accumulators import fixed
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart, Scratch, Value
from xlac.codegen.gpu.core.grid import THREADS, GridThread, grid
from xlac.codegen.gpu.scan.cumulative import EACH, BlockScan, check
from xlac.codegen.schedules.gpu.order import GpuCompactSchedule
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, upper_bound, volume
from xlac.ir.op import Index
from xlac.ops.control.control import Pick
from xlac.ops.tensor.regroup import regroup
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """A launch that counts each segment, unless there is only one; then one that writes positions,
    and fills up to the bound.
    """
    chosen = GpuCompactSchedule(EACH, min(THREADS, target.block_threads))
    schedule = lower_part.decisions.settle(name, chosen, partial(check, target=target))
    compact = _Compact(group, target, schedule)
    launches = []
    if upper_bound(compact.pieces) > 1:
        elements = Elements(Builder(), group, target)
        compact.count(elements)
        launches.append(elements.launch(f"{name}_counts"))
    elements = Elements(Builder(), group, target)
    compact.place(elements)
    return LoweredGroup((*launches, elements.launch(name, cost.work(group))))


class _Compact:
    def __init__(self, group: Group, target: Target, schedule: GpuCompactSchedule) -> None:
        self.group, self.target = group, target
        (self.mask,) = group.anchor.inputs
        self.size: Dim = volume(self.mask.shape)
        (self.bound,) = group.anchor.results[0].shape
        self.threads, self.each = schedule.threads, schedule.each
        self.stretch = self.threads * self.each
        # also one without elements, which fills the positions
        self.pieces = self.size // self.stretch + 1
        self.counts = Scratch(DType.I64, self.pieces, "counts")

    def _elements(self, elements: Elements, here: GridThread) -> list[tuple[Expr, Expr]]:
        """A thread's elements and their positions; false outside of the mask."""
        builder = elements.builder
        values = []
        for number in range(self.each):
            place = build.add(
                build.mul(here.block, self.stretch), build.mul(here.thread, self.each)
            )
            position = builder.let("position", build.add(place, number))
            there = builder.let("there", build.apply(P.LT, position, build.lift(self.size)))
            index: Index = regroup((position,), (self.size,), self.mask.shape)
            with elements.guarded(there):
                value = build.apply(P.AND, there, elements.at(self.mask, index))
            values.append((builder.let("found", value), position))
        return values

    def _sum(self, elements: Elements, values: list[tuple[Expr, Expr]]) -> Expr:
        total: Expr = build.index(0)
        for value, _ in values:
            total = elements.builder.let(
                "sum", build.apply(P.ADD, total, build.cast(value, build.INDEX))
            )
        return total

    def count(self, elements: Elements) -> None:
        """The kernel that counts each segment."""
        with grid(elements.builder, self.target, self.pieces, self.threads) as here:
            (total,) = here.across(
                [(P.ADD, self._sum(elements, self._elements(elements, here)))], self.threads
            )
            with elements.builder.when(build.apply(P.EQ, here.thread, build.index(0))):
                elements.builder.store(
                    elements.parameter(self.counts, Access.WRITE), here.block, total
                )

    def place(self, elements: Elements) -> None:
        """The kernel that writes positions and the count."""
        builder, bound = elements.builder, build.lift(self.bound)
        picks: dict[int, Value] = {
            n.op.index: n for n in self.group.outputs if isinstance(n.op, Pick)
        }
        with grid(builder, self.target, self.pieces, self.threads) as here:
            values = self._elements(elements, here)
            before, total = BlockScan(here, P.ADD, build.index(0)).exclusive(
                self._sum(elements, values)
            )
            if upper_bound(self.pieces) > 1:
                earlier, total = self._others(elements, here)
                before = build.apply(P.ADD, earlier, before)
            if 0 in picks:
                positions = elements.parameter(picks[0], Access.WRITE)
                for value, position in values:
                    before = builder.let("before", before)
                    with builder.when(build.apply(P.AND, value, build.apply(P.LT, before, bound))):
                        builder.store(positions, before, position)
                    before = build.apply(P.ADD, before, build.cast(value, build.INDEX))
                first = build.add(build.mul(here.block, self.threads), here.thread)
                step = self.pieces * self.threads
                self._fill(
                    elements,
                    builder.let("first", build.add(build.apply(P.MIN, total, bound), first)),
                    step,
                )
            if 1 in picks:
                with builder.when(
                    build.apply(P.EQ, build.add(here.block, here.thread), build.index(0))
                ):
                    builder.store(elements.parameter(picks[1], Access.WRITE), 0, total)

    def _others(self, elements: Elements, here: GridThread) -> tuple[Expr, Expr]:
        """The counts before a block's segment, and in total."""
        builder = elements.builder
        counts = elements.parameter(self.counts, Access.READ)
        before, total = (
            builder.variable("before", build.index(0)),
            builder.variable("total", build.index(0)),
        )
        with builder.loop("k", 0, self.pieces, self.threads) as k:
            at = builder.let("at", build.add(k, here.thread))
            one = builder.let(
                "one", build.load(counts, at, mask=build.apply(P.LT, at, build.lift(self.pieces)))
            )
            earlier = build.select(build.apply(P.LT, at, here.block), one, build.index(0))
            builder.assign(before, build.apply(P.ADD, before, earlier))
            builder.assign(total, build.apply(P.ADD, total, one))
        both = [(P.ADD, fixed(elements, before)), (P.ADD, fixed(elements, total))]
        sums = here.across(both, self.threads)
        return sums[0], sums[1]

    def _fill(self, elements: Elements, first: Expr, step: Dim) -> None:
        """Fills positions from `first` on, `step` apart, with the size of the mask."""
        builder, bound = elements.builder, build.lift(self.bound)
        positions = elements.parameter(
            next(n for n in self.group.outputs if isinstance(n.op, Pick) and n.op.index == 0)
        )
        turns = build.div(build.add(build.add(self.bound, step), -1), step)
        with builder.loop("k", 0, turns) as k:
            at = builder.let("at", build.add(first, build.mul(k, step)))
            with builder.when(build.apply(P.LT, at, bound)):
                builder.store(positions, at, build.lift(self.size))
