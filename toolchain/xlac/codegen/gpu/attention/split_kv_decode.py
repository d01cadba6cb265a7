"""Attention of a few queries: keys and values are read once, by enough blocks to use the memory
bandwidth.

Adjacent threads hold parts of a row's width and iterate over their share of the keys; each group of
such threads has its own softmax state: the maximum score, the sum of the weights and the weighted
values. Groups, warps and blocks then combine their states.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlac.codegen.core.attention_problem import LOWEST, AttentionProblem, exponential
from xlac.codegen.core.contraction.contraction import multiply_add, unravel, zero
from xlac.codegen.core.contraction.matrix_operand import Counters, offset
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.core.lowered_group import KernelLaunch
from xlac.codegen.gpu.attention.decode_reads import DecodeReads
from xlac.codegen.gpu.attention.decode_split import split_of
from xlac.codegen.gpu.attention.softmax_state import (
    SoftmaxState,
    SplitResults,
    combine,
    merge_states,
    store,
)
from xlac.codegen.gpu.core.grid import GridThread, grid
from xlac.codegen.gpu.reduction import arrival_counter
from xlac.codegen.schedules.gpu.attention import SplitKvDecodeSchedule
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import ceil_div, volume
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Const, Exchange, Expr, Var
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive


def launches(
    group: Group,
    target: Target,
    name: str,
    h: AttentionProblem,
    after: Epilogue,
    schedule: SplitKvDecodeSchedule,
) -> list[KernelLaunch]:
    """One kernel, whose blocks may share the keys; a second may combine their states."""
    how, elements = split_of(schedule, h), Elements(Builder(), group, target)
    if how.splits == 1:
        SplitDecode(elements, after, h, how, target, None).write()
        return [elements.launch(name, cost.work(group))]
    threads = schedule.combine_threads
    splits = SplitResults.of(h, how.splits, how.part, by_last_block=threads is None)
    SplitDecode(elements, after, h, how, target, splits).write()
    if threads is None:
        return [elements.launch(name, cost.work(group))]
    combining = Elements(Builder(), group, target)
    combine(combining, after, h, splits, threads)
    return [elements.launch(f"{name}_parts", cost.work(group)), combining.launch(name)]


class SplitDecode(DecodeReads):
    """Writes the kernel's body with the builder of `elements`."""

    def write(self) -> None:
        """A block for some rows of every key head and a share of its keys."""
        h, how, builder = self.h, self.how, self.builder
        extents = [*h.batch, ceil_div(h.rows, how.few), how.splits]
        with grid(builder, self.target, volume(tuple(extents)), how.warps * self.target.warp) as g:
            *batch, down, split = unravel(builder, g.block, extents)
            first = builder.let("row", build.mul(down, how.few))
            keys = ceil_div(h.length, how.splits)
            begin = builder.let("begin", build.mul(split, keys))
            end = build.lift(h.length)
            if how.splits > 1:
                end = bounded(builder, build.apply(P.MIN, build.add(begin, keys), end), h.length)
            lane = builder.let("lane", build.mod(g.thread, self.target.warp))
            states = self._look(g, batch, first, begin, end, lane)
            distance = self.target.warp // 2
            while distance >= how.across:
                states = [self._merged(state, self._exchanged(state, distance)) for state in states]
                distance //= 2
            self._finish(g, batch, first, split, lane, states)

    def _look(
        self, g: GridThread, batch: Counters, first: Expr, begin: Expr, end: Expr, lane: Expr
    ) -> list[SoftmaxState]:
        """One thread's softmax states of the rows, over its share of the keys."""
        h, how, builder, warp = self.h, self.how, self.builder, self.target.warp
        slot = builder.let(
            "slot",
            build.add(
                build.mul(build.div(g.thread, warp), warp // how.across),
                build.div(lane, how.across),
            ),
        )
        element = builder.let("element", build.mul(build.mod(lane, how.across), how.lanes))
        held = (
            []
            if how.across * how.lanes == h.widths[0]
            else [builder.let("held", build.apply(P.LT, element, build.lift(h.widths[0])))]
        )
        rows = [self._row(build.add(first, i)) for i in range(how.few)]
        queries = [self._query(batch, row, element, held) for row in rows]
        bases = [
            builder.let("base", offset(side.start(batch), [element], side.strides))
            for side in (h.keys, h.values)
        ]
        greatest = [
            builder.variable("greatest", Const(LOWEST[self.dtype], self.dtype)) for _ in rows
        ]
        weights = [builder.variable("weight", zero(self.dtype, 1)) for _ in rows]
        values = [
            [builder.variable("value", zero(self.dtype, how.part)) for _ in range(how.parts)]
            for _ in rows
        ]
        slots = how.warps * warp // how.across
        with builder.loop("k", begin, end, slots * how.ahead) as k:
            keys = [
                builder.let("key", build.add(build.add(k, slot), slots * u))
                for u in range(how.ahead)
            ]
            there = [builder.let("there", build.apply(P.LT, key, end)) for key in keys]
            read = [
                [
                    self._read(side, base, [key], [*held, ok])
                    for key, ok in zip(keys, there, strict=True)
                ]
                for side, base in zip((h.keys, h.values), bases, strict=True)
            ]
            for number, row in enumerate(rows):
                for key, key_parts, value_parts in zip(keys, *read, strict=True):
                    score = self._product(queries[number], key_parts)
                    score = builder.let(
                        "score", h.scored(self.elements, batch, row, key, score, end)
                    )
                    state = greatest[number], weights[number], values[number]
                    self._take(state, score, value_parts)
        return [
            SoftmaxState(m, s, tuple(v)) for m, s, v in zip(greatest, weights, values, strict=True)
        ]

    def _take(self, state: tuple[Var, Var, list[Var]], score: Expr, parts: Sequence[Expr]) -> None:
        """Adds one key's values, weighted by its score, to a row's state."""
        builder, (greatest, weight, values), part = self.builder, state, self.how.part
        top = builder.let("top", build.apply(P.MAX, greatest, score))
        less = builder.let("less", exponential(build.apply(P.SUB, greatest, top)))
        share = builder.let("share", exponential(build.apply(P.SUB, score, top)))
        builder.assign(weight, multiply_add(self.target, weight, less, share))
        for total, value in zip(values, parts, strict=True):
            kept = build.apply(P.MUL, total, build.splat(less, part))
            builder.assign(total, multiply_add(self.target, build.splat(share, part), value, kept))
        builder.assign(greatest, top)

    # ---- combining ---------------------------------------------------------------------------

    def _exchanged(self, state: SoftmaxState, distance: int) -> SoftmaxState:
        """The state of the thread `distance` lanes away."""
        mine = (state.greatest, state.weight, *state.values)
        greatest, weight, *values = (
            self.builder.let("other", Exchange(self.builder.let("mine", x), distance)) for x in mine
        )
        return SoftmaxState(greatest, weight, tuple(values))

    def _merged(self, one: SoftmaxState, other: SoftmaxState) -> SoftmaxState:
        return merge_states(self.builder, one, other)

    def _finish(
        self,
        g: GridThread,
        batch: Counters,
        first: Expr,
        split: Expr,
        lane: Expr,
        states: list[SoftmaxState],
    ) -> None:
        """Combines the states of warps in SHARED memory; the first threads store the result."""
        h, how, builder = self.h, self.how, self.builder
        width, warp = how.across * how.lanes, build.div(g.thread, self.target.warp)
        kept = g.shared("kept", self.dtype, how.warps * how.few * width)
        sums = g.shared("sums", self.dtype, how.warps * how.few * 2)
        with builder.when(build.apply(P.LT, lane, build.index(how.across))):
            for number, state in enumerate(states):
                at = builder.let("at", build.add(build.mul(warp, how.few), number))
                for part, value in enumerate(state.values):
                    where = build.add(
                        build.mul(at, width), build.add(build.mul(lane, how.lanes), part * how.part)
                    )
                    builder.store(kept, where, value)
                with builder.when(build.apply(P.EQ, lane, build.index(0))):
                    builder.store(sums, build.mul(at, 2), state.greatest)
                    builder.store(sums, build.add(build.mul(at, 2), 1), state.weight)
        builder.barrier()
        across, threads = h.widths[1] // how.part, how.warps * self.target.warp
        for begin in range(0, how.few * across, threads):
            place = builder.let("place", build.add(g.thread, begin))
            with builder.when(build.apply(P.LT, place, build.index(how.few * across))):
                down, column = (
                    build.div(place, across),
                    builder.let("column", build.mul(build.mod(place, across), how.part)),
                )
                row = builder.let("row", build.add(first, down))
                with builder.when(build.apply(P.LT, row, build.lift(h.rows))):
                    warp_states = []
                    for other in range(how.warps):
                        at = builder.let("at", build.add(down, other * how.few))
                        value = builder.let(
                            "value",
                            build.load(kept, build.add(build.mul(at, width), column), how.part),
                        )
                        top, weight = (
                            builder.let("sum", build.load(sums, build.add(build.mul(at, 2), e)))
                            for e in range(2)
                        )
                        warp_states.append(SoftmaxState(top, weight, (value,)))
                    state = warp_states[0]
                    for more in warp_states[1:]:
                        state = self._merged(state, more)
                    self._store(batch, row, column, split, state)
        if self.splits is not None and self.splits.by_last_block:
            builder.emit(arrival_counter.fence())
            count = volume(h.batch) * ceil_div(h.rows, how.few)
            with arrival_counter.last(
                self.elements, g, build.div(g.block, how.splits), count, how.splits
            ):
                self._combine(g, batch, first, self.splits)

    def _combine(self, g: GridThread, batch: Counters, first: Expr, splits: SplitResults) -> None:
        """Combines the states of all blocks for the rows of this block."""
        builder, across = self.builder, self.h.widths[1] // self.how.part
        with builder.loop("place", g.thread, self.how.few * across, g.threads) as place:
            row = builder.let("row", build.add(first, build.div(place, across)))
            with builder.when(build.apply(P.LT, row, build.lift(self.h.rows))):
                column = builder.let("column", build.mul(build.mod(place, across), self.how.part))
                splits.result(self.elements, self.after, self.h, batch, row, column)

    def _store(
        self, batch: Counters, row: Expr, column: Expr, split: Expr, state: SoftmaxState
    ) -> None:
        h, builder = self.h, self.builder
        if self.splits is None:
            store(self.elements, self.after, h, batch, row, column, state)
            return
        at = builder.let("at", self.splits.place(h, batch, row, split))
        access = Access.REREAD if self.splits.by_last_block else Access.WRITE
        values, weights = (
            self.elements.parameter(one, access)
            for one in (self.splits.values, self.splits.weights)
        )
        builder.store(values, build.add(build.mul(at, h.widths[1]), column), state.values[0])
        with builder.when(build.apply(P.EQ, column, build.index(0))):
            builder.store(weights, build.mul(at, 2), state.greatest)
            builder.store(weights, build.add(build.mul(at, 2), 1), state.weight)
