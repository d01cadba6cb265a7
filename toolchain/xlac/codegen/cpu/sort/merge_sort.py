"""Sorting: a stable bottom-up merge sort that moves all operands together.

Each line along the axis is sorted in scratch memory of twice its length, from one half into the
other and back; the last level writes the result. A merge takes the right element only if it sorts
strictly before the left, so equal keys keep their order. Lines are independent: threads share them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlac.codegen.core.accumulators import fixed
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.kinds.sort import goes_before
from xlac.codegen.cpu.sort.lines import Lines
from xlac.codegen.schedules.sort import MergeSortSchedule
from xlac.ir.dims import upper_bound
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Number
from xlac_sdk.kernel_ir.kernel import Buffer, Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive

Before = Callable[[Sequence[Expr], Sequence[Expr]], Expr]
"""Whether a record sorts strictly before another."""


def merge_sort(lines: Lines, schedule: MergeSortSchedule) -> None:
    """Writes the kernel."""
    builder, count = lines.builder, lines.count
    with lines.inside(schedule.threads):
        if count == 1:
            with builder.loop("k", 0, lines.kept) as k:
                lines.store(k, lines.read(k))
            return
        # the two halves of a line's scratch memory are consecutive
        rooms = [lines.scratch(dtype, count * 2) for dtype in lines.dtypes]
        buffers, base = [buffer for buffer, _ in rooms], rooms[0][1]
        with builder.loop("k", 0, count) as k:
            for buffer, value in zip(buffers, lines.read(k), strict=True):
                lines.elements.store_to(buffer, build.add(base, k), value)

        def before(a: Sequence[Expr], b: Sequence[Expr]) -> Expr:
            return goes_before(lines.elements, lines.op, a, b)

        merge = Merge(lines.elements, buffers, base, count, before)
        done = merge.every(upper_bound(count))
        with builder.loop("k", 0, lines.kept) as k:
            lines.store(k, [lines.elements.load(b, build.add(done, k)) for b in buffers])


@dataclass(frozen=True, slots=True)
class Merge:
    """Sorts the first `count` records of buffers, from `base`, by merging into memory `apart`
    records further (`count` by default) and back.
    """

    elements: Elements
    buffers: Sequence[Buffer]
    base: Expr
    count: Number
    before: Before
    apart: Number | None = None

    def every(self, most: int) -> Expr:
        """All levels, for at most `most` records; returns the offset of the sorted ones."""
        builder = self.elements.builder
        levels = max(1, most - 1).bit_length()
        if isinstance(self.count, int):
            with builder.loop("level", 0, levels) as level:
                self._level(level)
            return build.add(self.base, (levels % 2) * self.count)
        done = builder.variable("done", build.index(0))
        with builder.loop("level", 0, levels) as level:
            width = build.apply(P.SHL, build.index(1), level)
            with builder.when(build.apply(P.LT, width, build.lift(self.count))):
                self._level(level)
                builder.assign(done, build.add(level, 1))
        odd = build.apply(P.AND, fixed(self.elements, done), build.index(1))
        return builder.let("done", build.add(self.base, build.mul(odd, self._apart)))

    @property
    def _apart(self) -> Number:
        return self.count if self.apart is None else self.apart

    def _level(self, level: Expr) -> None:
        """Merges all pairs of runs of length 2^level, from the half given by the level's parity
        into the other.
        """
        builder, count = self.elements.builder, build.lift(self.count)
        apart = build.lift(self._apart)
        odd = builder.let("odd", build.apply(P.AND, level, build.index(1)))
        source = builder.let("from", build.add(self.base, build.apply(P.MUL, odd, apart)))
        other = builder.let(
            "into", build.add(self.base, build.apply(P.MUL, build.sub(1, odd), apart))
        )
        width = builder.let("width", build.apply(P.SHL, build.index(1), level))
        both = builder.let("both", build.add(width, width))
        pairs = builder.let("pairs", build.apply(P.DIV, build.sub(build.add(both, count), 1), both))
        with builder.loop("pair", 0, pairs) as pair:
            low = builder.let("low", build.apply(P.MUL, pair, both))
            middle = builder.let("middle", build.apply(P.MIN, build.add(low, width), count))
            high = builder.let("high", build.apply(P.MIN, build.add(low, both), count))
            self._pair(source, other, low, middle, high)

    def _pair(self, source: Expr, other: Expr, low: Expr, middle: Expr, high: Expr) -> None:
        """Merges the runs from `low` and from `middle` up to `high`."""
        builder, load, last = self.elements.builder, self.elements.load, build.sub(self.count, 1)
        left, right = builder.variable("left", low), builder.variable("right", middle)
        with builder.loop("k", low, high) as k:
            i, j = fixed(self.elements, left), fixed(self.elements, right)
            # the element past the end of a run is loaded too, and ignored
            j_safe = builder.let("j", build.apply(P.MIN, j, last))
            i_safe = builder.let("i", build.apply(P.MIN, i, last))
            first = [builder.let("a", load(b, build.add(source, i_safe))) for b in self.buffers]
            second = [builder.let("b", load(b, build.add(source, j_safe))) for b in self.buffers]
            before = builder.let("before", self.before(second, first))
            has_left, has_right = build.apply(P.LT, i, middle), build.apply(P.LT, j, high)
            not_left = build.apply(P.XOR, has_left, Const(True, DType.BOOL))
            take = builder.let(
                "take", build.apply(P.OR, not_left, build.apply(P.AND, has_right, before))
            )
            to = build.add(other, k)
            for buffer, a, b in zip(self.buffers, first, second, strict=True):
                self.elements.store_to(buffer, to, build.select(take, b, a))
            moved = builder.let("moved", build.cast(take, build.INDEX))
            builder.assign(right, build.add(j, moved))
            builder.assign(left, build.add(i, build.sub(1, moved)))
