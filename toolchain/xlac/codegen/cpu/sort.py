"""Sorting: a stable bottom-up merge sort that moves all operands together.

Each line along the axis is sorted in scratch memory of twice its length, from one half into the
other and back; the last level writes the result. A merge takes the right element only if it sorts
strictly before the left, so equal keys keep their order. Lines are independent: threads share them.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.accumulators import fixed
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.kinds.sort import goes_before
from xlac.codegen.core.loop_nest import check_threads, nest, share
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart, Scratch
from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.sort import MergeSortSchedule
from xlac.fusion import cost
from xlac.fusion.group import Group, picked
from xlac.ir.dims import Sym, size_hint, upper_bound, volume
from xlac.ops.reduction.order import Sort
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive
STEP = 12  # operations to move one element in one merge


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """One launch."""
    elements = Elements(Builder(), group, target)
    _Sorter(elements).write(name, lower_part.decisions)
    return LoweredGroup((elements.launch(name, cost.work(group)),))


class _Sorter:
    def __init__(self, elements: Elements) -> None:
        self.elements, self.builder = elements, elements.builder
        group = elements.group
        self.anchor = group.anchor
        op = self.anchor.op
        assert isinstance(op, Sort)
        self.op = op
        self.shape = self.anchor.inputs[0].shape
        self.count = self.shape[op.axis]
        strings = volume(tuple(n for a, n in enumerate(self.shape) if a != op.axis))
        self.dtypes = [t.dtype for t in self.anchor.results]
        # the two halves of a line's scratch memory are consecutive
        self.scratch = (
            [Scratch(d, strings * self.count * 2, "sort") for d in self.dtypes]
            if self.count not in (0, 1)
            else []
        )

    def write(self, name: str, decisions: Decisions) -> None:
        axis = self.op.axis
        loops = [Run(n, (a,)) for a, n in enumerate(self.shape) if a != axis]
        usual = size_hint(self.count)
        levels = max(1, usual - 1).bit_length() if usual > 1 else 0
        threads = share(self.elements.target, loops, STEP * usual * (levels + 1))

        def check(schedule: MergeSortSchedule) -> None:
            check_threads(schedule.threads, len(loops))

        schedule = decisions.settle(name, MergeSortSchedule(threads), check)
        with nest(self.builder, loops, schedule.threads) as counters:
            place = {run.axes[0]: counter for run, counter in counters.items()}

            def at(k: Expr) -> tuple[Expr, ...]:
                return tuple(k if a == axis else place[a] for a in range(len(self.shape)))

            if self.count == 1:
                self._store(
                    at(build.index(0)),
                    [self.elements.at(x, at(build.index(0))) for x in self.anchor.inputs],
                )
                return
            string: Expr = build.index(0)
            for run in loops:
                string = build.add(build.mul(string, run.extent), counters[run])
            base = build.mul(string, self.count * 2)
            buffers = [self.elements.parameter(s, Access.REREAD) for s in self.scratch]
            with self.builder.loop("k", 0, self.count) as k:
                for buffer, x in zip(buffers, self.anchor.inputs, strict=True):
                    self.elements.store_to(buffer, build.add(base, k), self.elements.at(x, at(k)))
            if isinstance(self.count, Sym):
                done = self._open_levels(buffers, base, self.count)
            else:
                with self.builder.loop("level", 0, levels) as level:
                    self._level(buffers, base, level)
                done = build.add(base, (levels % 2) * self.count)
            with self.builder.loop("k", 0, self.count) as k:
                self._store(at(k), [self.elements.load(b, build.add(done, k)) for b in buffers])

    def _open_levels(self, buffers: Sequence[Buffer], base: Expr, count: Sym) -> Expr:
        """The merge levels for a dynamic length; yields the half that holds the sorted line."""
        builder = self.builder
        done = builder.variable("done", build.index(0))
        with builder.loop("level", 0, max(1, upper_bound(count) - 1).bit_length()) as level:
            width = build.apply(P.SHL, build.index(1), level)
            with builder.when(build.apply(P.LT, width, build.lift(count))):
                self._level(buffers, base, level)
                builder.assign(done, build.add(level, 1))
        odd = build.apply(P.AND, fixed(self.elements, done), build.index(1))
        return builder.let("done", build.add(base, build.mul(odd, count)))

    def _store(self, at: tuple[Expr, ...], values: Sequence[Expr]) -> None:
        for node, number in picked(self.elements.group):
            self.elements.store(node, at, values[number])

    def _level(self, buffers: Sequence[Buffer], base: Expr, level: Expr) -> None:
        """Merges all pairs of runs of length 2^level, from the half given by the level's parity
        into the other.
        """
        builder, count = self.builder, self.count
        odd = builder.let("odd", build.apply(P.AND, level, build.index(1)))
        source = builder.let("from", build.add(base, build.apply(P.MUL, odd, build.lift(count))))
        other = builder.let(
            "into", build.add(base, build.apply(P.MUL, build.sub(1, odd), build.lift(count)))
        )
        width = builder.let("width", build.apply(P.SHL, build.index(1), level))
        both = builder.let("both", build.add(width, width))
        pairs = builder.let("pairs", build.apply(P.DIV, build.sub(build.add(both, count), 1), both))
        last = build.lift(count)
        with builder.loop("pair", 0, pairs) as pair:
            low = builder.let("low", build.apply(P.MUL, pair, both))
            middle = builder.let("middle", build.apply(P.MIN, build.add(low, width), last))
            high = builder.let("high", build.apply(P.MIN, build.add(low, both), last))
            left, right = builder.variable("left", low), builder.variable("right", middle)
            with builder.loop("k", low, high) as k:
                i, j = fixed(self.elements, left), fixed(self.elements, right)
                # the element past the end of a run is loaded too, and ignored
                j_safe = builder.let("j", build.apply(P.MIN, j, build.lift(count - 1)))
                i_safe = builder.let("i", build.apply(P.MIN, i, build.lift(count - 1)))
                first = [
                    builder.let("a", self.elements.load(b, build.add(source, i_safe)))
                    for b in buffers
                ]
                second = [
                    builder.let("b", self.elements.load(b, build.add(source, j_safe)))
                    for b in buffers
                ]
                before = builder.let("before", goes_before(self.elements, self.op, second, first))
                has_left, has_right = build.apply(P.LT, i, middle), build.apply(P.LT, j, high)
                not_left = build.apply(P.XOR, has_left, Const(True, DType.BOOL))
                take = builder.let(
                    "take", build.apply(P.OR, not_left, build.apply(P.AND, has_right, before))
                )
                to = build.add(other, k)
                for buffer, a, b in zip(buffers, first, second, strict=True):
                    self.elements.store_to(buffer, to, build.select(take, b, a))
                moved = builder.let("moved", build.cast(take, build.INDEX))
                builder.assign(right, build.add(j, moved))
                builder.assign(left, build.add(i, build.sub(1, moved)))
