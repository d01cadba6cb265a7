"""Scatter by sorting: updates are sorted by position (stably), and one thread combines those of
each position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from xlac.codegen.core.accumulators import fixed
from xlac.codegen.core.addressing import linear, row_major
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.lowered_group import KernelLaunch, Scratch, Value
from xlac.codegen.core.scatter import Updates, all_of
from xlac.codegen.core.summation import BLOCK, Pair, compensated
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, upper_bound, volume
from xlac.ops import numeric
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive
NOWHERE = 2**62  # the position of updates out of range: after all others


class SortedScatter:
    """The launches that sort updates by position and combine those of each position.

    An update is a whole window if windows at different positions never overlap, else an element.
    """

    def __init__(self, group: Group, target: Target, results: Sequence[Value]) -> None:
        self.group, self.target, self.results = group, target, results
        known = Updates(Elements(Builder(), group, target), results)
        self.sizes = known.sizes
        sliding = [
            a
            for a in known.window
            if a in known.op.scatter_dims_to_operand_dims and self.sizes[known.window[a]] != 1
        ]
        self.columns = [] if sliding else sorted(known.op.update_window_dims)
        self.rows = [a for a in range(len(self.sizes)) if a not in self.columns]
        self.count: Dim = volume(tuple(self.sizes[a] for a in self.rows))
        self.places, self.numbers = (
            Scratch(DType.I64, self.count, "places"),
            Scratch(DType.I64, self.count, "order"),
        )

    def launches(self, name: str) -> list[KernelLaunch]:
        """The launches of the sort, then one that combines."""
        sorting = self.order(f"{name}_order")
        elements = Elements(Builder(), self.group, self.target)
        self.combine(elements, Updates(elements, self.results))
        return [*sorting, elements.launch(name, cost.work(self.group))]

    def order(self, name: str) -> list[KernelLaunch]:
        """The launches that produce the sorted positions, and the update number of each."""
        raise NotImplementedError

    def combine(self, elements: Elements, updates: Updates) -> None:
        """Writes the kernel that loops over the updates of each position."""
        raise NotImplementedError

    def place(self, elements: Elements, number: Expr) -> Expr:
        """The position of an update."""
        place, inside = Updates(elements, self.results).place(self.at(number))
        place = elements.builder.let("place", place)
        return build.select(all_of(inside), place, build.index(NOWHERE)) if inside else place

    def at(self, number: Expr, columns: Sequence[Expr] | None = None) -> tuple[Expr, ...]:
        """The index into the updates tensor of one update, at its first element or at counters
        within its window.
        """
        place: list[Expr] = [build.index(0)] * len(self.sizes)
        for axis, counter in zip(self.columns, columns or (), strict=False):
            place[axis] = counter
        for axis in reversed(self.rows):
            place[axis] = build.mod(number, self.sizes[axis])
            number = build.div(number, self.sizes[axis])
        return tuple(place)

    @contextmanager
    def first_of_its_place(self, elements: Elements, rank: Expr) -> Iterator[Expr]:
        """A scope executed at ranks where a new position begins; yields the position."""
        builder = elements.builder
        places = elements.parameter(self.places, Access.READ)
        place = builder.let("place", build.load(places, rank))
        some = build.apply(P.LT, build.index(0), rank)
        before = builder.let("before", build.load(places, build.sub(rank, 1), mask=some))
        first = build.apply(
            P.OR, build.apply(P.EQ, rank, build.index(0)), build.apply(P.NE, before, place)
        )
        with builder.when(
            build.apply(P.AND, first, build.apply(P.LT, place, build.index(NOWHERE)))
        ):
            yield place

    def stop(self, elements: Elements, rank: Expr, place: Expr) -> Expr:
        """One past the last rank with the position that begins at `rank`, by binary search."""
        builder = elements.builder
        places = elements.parameter(self.places, Access.READ)
        low, high = (
            builder.variable("low", build.add(rank, 1)),
            builder.variable("high", build.lift(self.count)),
        )
        with builder.loop("step", 0, upper_bound(self.count).bit_length()):
            a, b = fixed(elements, low), fixed(elements, high)
            with builder.when(build.apply(P.LT, a, b)):
                half = builder.let("half", build.apply(P.SHR, build.add(a, b), build.index(1)))
                same = builder.let("same", build.apply(P.EQ, build.load(places, half), place))
                builder.assign(low, build.select(same, build.add(half, 1), a))
                builder.assign(high, build.select(same, b, half))
        return fixed(elements, low)

    def gather(
        self,
        elements: Elements,
        updates: Updates,
        rank: Expr,
        stop: Expr,
        place: Expr,
        columns: Sequence[Expr],
    ) -> None:
        """Combines the updates of one position in their order; sums of floats in blocks."""
        builder, op = elements.builder, updates.op
        numbers = elements.parameter(self.numbers, Access.READ)
        where = builder.let("where", build.add(place, self._inside(updates, columns)))
        if op.combine == "assign":
            at = self.at(builder.let("number", build.load(numbers, build.sub(stop, 1))), columns)
            for buffer, update in zip(updates.buffers, updates.updates, strict=True):
                elements.store_to(buffer, where, elements.at(update, at))
            return
        states = [builder.variable("state", elements.load(b, where)) for b in updates.buffers]
        if op.body is None and compensated(op.combine, states[0].dtype):
            (state,), (buffer,), (update,) = states, updates.buffers, updates.updates
            pair = Pair.of(builder, state)
            with builder.loop("block", rank, stop, BLOCK) as block:
                part = builder.variable("part", Const(0.0, state.dtype, state.lanes))
                end = builder.let("end", build.apply(P.MIN, build.add(block, BLOCK), stop))
                with builder.loop("r", block, end) as r:
                    number = builder.let("number", build.load(numbers, r))
                    builder.assign(
                        part,
                        build.apply(P.ADD, part, elements.at(update, self.at(number, columns))),
                    )
                pair.add(fixed(elements, part))
            elements.store_to(buffer, where, pair.total())
            return
        with builder.loop("r", rank, stop) as r:
            at = self.at(builder.let("number", build.load(numbers, r)), columns)
            news = [elements.at(update, at) for update in updates.updates]
            olds = [fixed(elements, state) for state in states]
            if op.body is not None:
                news = list(elements.inline(op.body, [*olds, *news]))
            else:
                news = [build.apply(numeric.COMBINE[op.combine], olds[0], news[0])]
            for state, buffer, value in zip(states, updates.buffers, news, strict=True):
                builder.assign(
                    state, build.cast(build.cast(value, buffer.dtype), buffer.dtype.compute)
                )
        for buffer, state in zip(updates.buffers, states, strict=True):
            elements.store_to(buffer, where, fixed(elements, state))

    def _inside(self, updates: Updates, columns: Sequence[Expr]) -> Expr:
        """The offset of an element of a window from its first."""
        strides = row_major(updates.shape)
        axes = {spot: axis for axis, spot in updates.window.items()}
        return linear(tuple(columns), tuple(strides[axes[spot]] for spot in self.columns))
