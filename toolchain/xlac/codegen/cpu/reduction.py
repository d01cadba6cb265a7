"""Reductions over any axes: rows, columns, middle axes or everything.

The loops are those of `row_reduction`. This module adds split reductions: one with few results and
many elements is split over threads. A first launch writes partial results of pieces to scratch
memory, a second combines them. The pieces depend on sizes alone, even with one thread, so results
do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import gcd

from xlac.codegen.core.access_analysis import Run, expand
from xlac.codegen.core.accumulators import Accumulator, fixed, rounded, sums
from xlac.codegen.core.addressing import linear, row_major
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.loop_nest import bounded, nest, serial_loops
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart, Scratch
from xlac.codegen.core.reduction_plan import ReductionSpace
from xlac.codegen.core.strip_mining import strip_mine
from xlac.codegen.core.summation import Pair
from xlac.codegen.cpu import short_rows
from xlac.codegen.cpu.reduction_choice import check, choose, every_template
from xlac.codegen.cpu.row_reduction import Rows
from xlac.codegen.schedules.reduction import (
    REDUCTIONS,
    ReductionSchedule,
    RowReductionSchedule,
    SplitReductionSchedule,
)
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, ceil_div, divisor, volume
from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac.ops import numeric
from xlac.ops.reduction.reduction import Reduce
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """One launch, or two for a split reduction; short rows are elementwise."""
    if short_rows.takes(group, target) and not _asked_for_rows(lower_part, name):
        lower_part.decisions.offer(name, lambda: [choose(_rows(group, target))])
        short, outputs = short_rows.elementwise(group)
        return short_rows.restored(lower_part(short, target, name), outputs)
    rows = _rows(group, target)
    schedule: ReductionSchedule = lower_part.decisions.settle(
        name, choose(rows), partial(check, rows=rows), REDUCTIONS, partial(every_template, rows)
    )
    if isinstance(schedule, RowReductionSchedule):
        rows.write_loops(schedule)
        return LoweredGroup((rows.elements.launch(name, cost.work(group)),), tuple(rows.in_place()))
    parts = _Partial(Elements(Builder(), group, target), rows.space)
    parts.write_parts(schedule)
    combine = _CombineParts(Elements(Builder(), group, target), rows.space)
    combine.write_results(schedule, parts)
    first = parts.elements.launch(f"{name}_parts", cost.work(group))
    return LoweredGroup((first, combine.elements.launch(name)), tuple(combine.in_place()))


def _rows(group: Group, target: Target) -> Rows:
    return Rows(Elements(Builder(), group, target), ReductionSpace.of(group))


def _asked_for_rows(lower_part: LowerPart, name: str) -> bool:
    """Whether the schedule asked for is that of plain loops around a reduction."""
    return isinstance(lower_part.decisions.wanted(name), REDUCTIONS)


class _Partial(Rows):
    """Reduces one piece of a reduced loop into scratch memory."""

    def write_parts(self, schedule: SplitReductionSchedule) -> None:
        """A parallel loop over pieces, with the loops over the kept axes inside."""
        self.follow(schedule)
        self.homes_of = {}
        self.run, self.length = self.loops[schedule.cut], schedule.stretch
        self.pieces = ceil_div(self.run.extent, self.length)
        self.piece: Expr = build.index(0)
        self.limit: build.Number = self.length
        reductions = [r for one in self.plan.passes for r in one.reductions]
        parts = self.pieces * volume(self.space.kept)
        self.scratch = {r: Scratch(r.type.dtype.compute, parts, "partial") for r in reductions}
        every = Run(self.pieces, ())
        with nest(self.builder, [every], schedule.threads) as counters:
            self.piece = counters.pop(every)
            if divisor(self.run.extent) % self.length:
                left = build.sub(self.run.extent, build.mul(self.piece, self.length))
                shorter = build.apply(Primitive.MIN, build.index(self.length), left)
                self.limit = bounded(
                    self.builder,
                    shorter,
                    self.length,
                    by=gcd(divisor(self.run.extent), self.length),
                )
            vector = self.vector
            kept = [run for run in self.kept if run is not vector]
            with serial_loops(self.builder, kept, counters):
                if self.by_row or vector is None:
                    self._row(counters)
                    return

                self._strip(counters, vector, 0, vector.extent)

    def _stretch(self, run: Run) -> tuple[build.Number, build.Number]:
        return (
            (build.mul(self.piece, self.length), self.limit) if run is self.run else (0, run.extent)
        )

    def _extent(self, run: Run) -> Dim:
        return self.length if run is self.run else run.extent

    def _finish(
        self, reduction: Node, accumulator: Accumulator, copy: int | None, index: Index
    ) -> None:
        buffer = self.elements.parameter(self.scratch[reduction], Access.WRITE)
        (value,) = accumulator.exact(copy)
        self.elements.store_to(buffer, _place(self.space, self.piece, index), value)

    def _settle(self, one: object, index: Index) -> None:
        """No node is computed from a partial result."""

    def _store_results(self, index: Index) -> None:
        """Left to the second launch."""


class _CombineParts(Rows):
    """Combines the partial results, and computes the nodes that follow."""

    def write_results(self, schedule: SplitReductionSchedule, parts: _Partial) -> None:
        """The combined results, along vectors of the last kept axis."""
        self.follow(schedule)
        self.parts = parts
        last, lanes = self.kept[-1] if self.kept else None, schedule.combine_lanes
        counters: dict[Run, Expr] = {}
        with serial_loops(self.builder, self.kept[:-1], counters):

            def body(bases: Sequence[Expr], wide: int, mask: Expr | None) -> None:
                with self.elements.masked(mask):
                    for base in bases:
                        moving = {last: build.ramp(base, 1, wide)} if last else {}
                        self._position(expand({**counters, **moving}, self.space.shape), wide)

            if last is None:
                body([build.index(0)], 1, None)
            else:
                strip_mine(self.builder, self.target, 0, last.extent, lanes, 1, body)

    def _position(self, index: Index, wide: int) -> None:
        for reduction, scratch in self.parts.scratch.items():
            assert isinstance(reduction.op, Reduce)
            combine, dtype = reduction.op.combine, reduction.type.dtype
            start = Const(numeric.identity(combine, dtype), dtype.compute, wide)
            total = self.builder.variable("acc", start)
            pair = Pair.of(self.builder, total) if sums(reduction) else None
            buffer = self.elements.parameter(scratch, Access.READ)
            with self.builder.loop("s", 0, self.parts.pieces) as piece:
                part = self.elements.load(buffer, _place(self.space, piece, index))
                if pair is not None:
                    pair.add(part)
                else:
                    self.builder.assign(total, build.apply(numeric.COMBINE[combine], total, part))
            result = fixed(self.elements, pair.total() if pair else total)
            self._deliver(reduction, index, rounded(self.elements, reduction, [result]))
        self._store_results(index)


def _place(space: ReductionSpace, piece: Expr, index: Index) -> Expr:
    """The offset of a partial result: pieces are consecutive, each with all results."""
    kept = tuple(entry for axis, entry in enumerate(index) if axis not in space.reduced)
    return build.add(
        build.mul(piece, volume(space.kept)), linear(kept, row_major(space.kept), space.kept)
    )
