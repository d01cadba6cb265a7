"""Gradient of max pooling, channels first: lanes are adjacent windows along the last axis."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.addressing import row_major
from xlac.codegen.core.loop_nest import bounded, check_threads, nest, share
from xlac.codegen.core.strip_mining import check_vectors, lanes_for, strip_mine
from xlac.codegen.cpu.window_choice.loops import ChoosingWindows
from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.schedule import Misfit
from xlac.codegen.schedules.window import WindowChoiceSchedule
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Buffer, Expr, Ramp, Shuffle
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive


class LinesOfWindows(ChoosingWindows):
    """Lanes are adjacent windows: all select their elements, then each adds its gradient."""

    def write(self, name: str, decisions: Decisions) -> None:
        """Loops over the other axes, with loops over rows of windows inside."""
        target, last = self.elements.target, self.axes[-1]
        loops = [Run(self.node.shape[a], (a,)) for a in self.others]
        work = prod(axis.count * axis.extent for axis in self.axes) * 4
        first, stop = last.inside
        dtypes = [self.x.type.dtype, DType.I32]
        widest = lanes_for(target, dtypes, max(1, stop - first))
        while widest > max(1, stop - first):
            widest //= 2

        def check(schedule: WindowChoiceSchedule) -> None:
            check_vectors(schedule.lanes, 1, False, target)
            check_threads(schedule.threads, len(loops))
            if schedule.lanes > max(1, stop - first):
                raise Misfit(("lanes",), f"{stop - first} windows of a row lie inside")
            if schedule.piece != 1:
                raise Misfit(("piece",), "windows of a row are not split into pieces")

        chosen = WindowChoiceSchedule(widest, 1, share(target, loops, work))
        schedule = decisions.settle(name, chosen, check)
        with nest(self.builder, loops, schedule.threads) as counters:
            index: list[Expr] = [build.index(0)] * self.node.type.rank
            for run in loops:
                index[run.axes[0]] = counters[run]

            def zero(row: Expr) -> None:
                at = list(index)
                at[self.axes[0].axis] = row
                with self.rows(self.axes[1:-1], at):
                    self._zeros(at)

            base = self.builder.let("base", self.place(index))
            chosen_places = self.builder.local("chosen", DType.I32, last.count)
            if len(self.axes) == 1:
                self._zeros(list(index))
                self._row_of_windows(index, {}, base, chosen_places, schedule.lanes)
                return
            with self.windows(self.axes[:-1], zero) as windows:
                self._row_of_windows(index, windows, base, chosen_places, schedule.lanes)

    def _zeros(self, index: list[Expr]) -> None:
        """Clears a row of the result."""

        def body(bases: Sequence[Expr], wide: int, mask: Expr | None) -> None:
            with self.elements.masked(mask):
                for base in bases:
                    lanes = build.ramp(base, 1, wide)
                    at = self.place([*index[:-1], lanes])
                    self.elements.store_to(self.result, at, self.zero(lanes))

        target, size = self.elements.target, self.axes[-1].size
        full = lanes_for(target, [self.node.type.dtype], size)
        strip_mine(self.builder, target, 0, size, full, 1, body)

    def _row_of_windows(
        self, index: list[Expr], windows: dict[int, Expr], base: Expr, chosen: Buffer, lanes: int
    ) -> None:
        """The windows of a row: first the elements that they select, then the additions."""
        builder, last = self.builder, self.axes[-1]
        steps = row_major(self.node.shape)
        rows = []
        for place in self.named(self.axes[:-1], windows):
            at = list(index)
            offset: Expr = build.index(0)
            for axis, where in zip(self.axes, place, strict=False):
                at[axis.axis] = where
                offset = build.add(offset, build.mul(where, steps[axis.axis]))
            rows.append((at, builder.let("row", offset)))
        first, stop = last.inside
        for start, end in ((0, first), (stop, last.count)):
            if start < end:
                with builder.loop("w", start, end) as window:
                    self._choose(rows, window, chosen)
        whole = first + (stop - first) // lanes * lanes
        if first < whole:
            with builder.loop("w", first, whole, lanes) as window:
                self._choose(rows, build.ramp(window, 1, lanes), chosen)
        if whole < stop:  # windows of the last vector that overlap the one before select again
            self._choose(rows, build.ramp(build.index(stop - lanes), 1, lanes), chosen)
        for axis in self.axes[:-1]:
            index = [*index[: axis.axis], windows[axis.axis], *index[axis.axis + 1 :]]
        with builder.loop("w", 0, last.count) as window:
            sent = self.elements.at(self.ct, (*index[:-1], window))
            offset = build.cast(build.load(chosen, window), build.INDEX)
            at_most = bounded(builder, offset, None, low=-last.low)
            where = build.add(build.add(base, at_most), build.mul(window, last.stride))
            total = build.apply(P.ADD, build.load(self.result, where), sent)
            builder.store(self.result, where, total)

    def _choose(
        self, rows: Sequence[tuple[list[Expr], Expr]], window: Expr, chosen: Buffer
    ) -> None:
        """The elements that a vector of windows selects, as offsets from the first element that
        their positions would have without padding.
        """
        builder, last = self.builder, self.axes[-1]
        best: Expr | None = None
        selected: Expr = build.index(0)
        for at, offset in rows:
            for number in range(last.extent):
                if isinstance(window, Ramp):
                    value = self._inside(at, window, number)
                    where: Expr = build.add(offset, number * last.dilation - last.low)
                else:
                    column = builder.let("at", last.at(window, number))
                    value = self.elements.at(self.x, (*at[:-1], column))
                    where = build.sub(build.add(offset, column), build.mul(window, last.stride))
                mine = build.splat(build.cast(where, DType.I32), window.lanes)
                value = build.splat(value, window.lanes)
                if best is None:
                    best, selected = value, mine
                    continue
                better = builder.let("better", self.better(value, best))
                selected = builder.let("found", build.select(better, mine, selected))
                best = builder.let("best", build.select(better, value, best))
        builder.store(chosen, window, selected)

    def _inside(self, at: Sequence[Expr], windows: Ramp, number: int) -> Expr:
        """The elements at one position of adjacent windows. With stride 2, every other element of
        two adjacent vectors.
        """
        last, lanes = self.axes[-1], windows.lanes

        def seen(place: int, stride: int, skipped: int = 0) -> Expr:
            start = build.add(build.mul(windows.base, last.stride), place + skipped - last.low)
            return self.elements.at(self.x, (*at[:-1], build.ramp(start, stride, lanes)))

        if last.stride != 2 or last.dilation != 1 or last.extent == 1:
            return seen(number * last.dilation, last.stride)
        odd = int(number + 1 == last.extent)
        halves = tuple(seen(number - odd, 1, skipped) for skipped in (0, lanes))
        if halves[0].lanes == 1:
            return halves[0]
        return Shuffle(halves, tuple(range(odd, 2 * lanes, 2)))
