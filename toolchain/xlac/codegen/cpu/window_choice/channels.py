"""Gradient of max pooling, channels last: lanes are elements of the last axis, along which windows
do not move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.loop_nest import check_threads, nest, pieces_of, share
from xlac.codegen.core.strip_mining import check_vectors, lanes_for, strip_mine
from xlac.codegen.cpu.window_choice.loops import ChoosingWindows
from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.window import WindowChoiceSchedule
from xlac.ir.dims import divisor, size_hint
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive
BATCH = 8  # iterations of the loops around channels from which channels are not shared by threads
PIECE = 4  # vectors of channels in a piece


class WindowsOfChannels(ChoosingWindows):
    """Lanes are elements of the last axis, along which windows do not move."""

    def write(self, name: str, decisions: Decisions) -> None:
        """Loops over the other axes and pieces of channels, with loops over windows inside."""
        target, width = self.elements.target, self.node.shape[-1]
        outer = [Run(self.node.shape[a], (a,)) for a in self.others[:-1]]
        chosen = self._choose(outer, len(self.others))

        def check(schedule: WindowChoiceSchedule) -> None:
            check_vectors(schedule.lanes, 1, False, target)
            check_threads(schedule.threads, len(outer) + 1)

        schedule = decisions.settle(name, chosen, check)
        block = schedule.lanes * schedule.piece
        pieces = pieces_of(width, block)
        with nest(self.builder, [*outer, pieces], schedule.threads) as counters:
            index: list[Expr] = [build.index(0)] * self.node.type.rank
            for run in outer:
                index[run.axes[0]] = counters[run]
            start = build.mul(counters[pieces], block)
            length: build.Number = block if divisor(width) % block == 0 else width
            if pieces.extent != 1 and divisor(width) % block:
                stop = build.apply(P.MIN, build.add(start, block), build.lift(width))
                length = self.builder.let("length", build.sub(stop, start))

            def strip(work: Callable[[Expr], None]) -> None:
                def body(bases: Sequence[Expr], wide: int, mask: Expr | None) -> None:
                    with self.elements.masked(mask):
                        for base in bases:
                            work(build.ramp(base, 1, wide))

                strip_mine(self.builder, target, start, length, schedule.lanes, 1, body)

            def zero(row: Expr) -> None:
                at = list(index)
                at[self.axes[0].axis] = row
                with self.rows(self.axes[1:], at):
                    strip(lambda lanes: self.store([*at[:-1], lanes], self.zero(lanes)))

            with self.windows(self.axes, zero) as windows:
                places = self.named(self.axes, windows)
                strip(lambda lanes: self._window(index, windows, places, lanes))

    def _choose(self, outer: Sequence[Run], loops: int) -> WindowChoiceSchedule:
        """All channels of an image together, unless there are too few images for the threads."""
        target, width = self.elements.target, self.node.shape[-1]
        lanes = lanes_for(target, [self.node.type.dtype, self.x.type.dtype], width)
        images = prod(size_hint(run.extent) for run in outer)
        whole = -(-size_hint(width) // lanes)
        piece = whole if images >= BATCH or target.threads == 1 else min(whole, PIECE)
        work = prod(axis.count * axis.extent for axis in self.axes) * 4 * lanes * piece
        runs = [*outer, pieces_of(width, lanes * piece)]
        return WindowChoiceSchedule(lanes, piece, share(target, runs, work))

    def _window(
        self,
        index: Sequence[Expr],
        windows: dict[int, Expr],
        places: Sequence[tuple[Expr, ...]],
        lanes: Expr,
    ) -> None:
        """The gradient contributions of one window, for some channels."""
        seen = []
        for place in places:
            at = [*index[:-1], lanes]
            for axis, where in zip(self.axes, place, strict=True):
                at[axis.axis] = where
            seen.append(at)
        values = [self.elements.at(self.x, tuple(at)) for at in seen]
        best, chosen = values[0], build.splat(Const(0, DType.I32), lanes.lanes)
        for number, value in enumerate(values[1:], 1):
            better = self.builder.let("better", self.better(value, best))
            mine = build.splat(Const(number, DType.I32), lanes.lanes)
            chosen = self.builder.let("chosen", build.select(better, mine, chosen))
            best = self.builder.let("best", build.select(better, value, best))
        at = [*index[:-1], lanes]
        for axis in self.axes:
            at[axis.axis] = windows[axis.axis]
        sent = build.splat(self.elements.at(self.ct, tuple(at)), lanes.lanes)
        apart = all(axis.reach < axis.stride and not axis.hangs for axis in self.axes)
        for number, at in enumerate(seen):
            here = build.apply(P.EQ, chosen, build.splat(Const(number, DType.I32), lanes.lanes))
            part = build.select(here, sent, self.zero(lanes))
            if not apart:
                part = build.apply(P.ADD, self.elements.load(self.result, self.place(at)), part)
            self.store(at, part)
