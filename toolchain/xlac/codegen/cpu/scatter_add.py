"""Scattered sums of floats: many updates may meet at one place, and keep their digits there.

Single elements, and many updates of a small operand: a second array holds what the roundings of
each place's sum have lost (**beside**). Windows: the updates are counted by place, so that those of
one place follow each other, and each place adds its own in blocks (**counted**). Where places are
very many beside the updates these are sorted by place instead (**sorted**). Those of one place
always meet in their order: the result is the same every time and for any number of threads. Halves
are summed in f32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from xlac.codegen.core import operands
from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.accumulators import fixed
from xlac.codegen.core.elements import Elements, linear, row_major
from xlac.codegen.core.loop_nest import (
    lanes_for,
    parallel_loops,
    piece,
    pieces_of,
    serial_loops,
    strip_mine,
)
from xlac.codegen.core.lowered_group import KernelLaunch, LowerPart, Scratch, Value
from xlac.codegen.core.scatter import STEP, Updates, all_of
from xlac.codegen.core.summation import BLOCK, Pair, compensated, two_sum, whole
from xlac.fusion import cost
from xlac.fusion.group import Group, Kind
from xlac.ir.dims import Dim, size_hint, upper_bound, volume
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import numeric
from xlac.ops.control.control import Pick
from xlac.ops.reduction.order import Sort
from xlac.ops.tensor.index import Scatter
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive
NOWHERE = 2**62  # the place of updates that are out of range: after all others
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
        _Here(group, target, results, lower_part),
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
    return _Counted(group, target, results, lower_part).launches(name)


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


# ---- sorted --------------------------------------------------------------------------------------


class Sorted:
    """The launches that sort updates by place and combine those of each.

    An update is a window where windows of different places have nothing in common, else an element.
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
        """Those of the sort, then one."""
        found = self.order(f"{name}_order")
        elements = Elements(Builder(), self.group, self.target)
        self.combine(elements, Updates(elements, self.results))
        return [*found, elements.launch(name, cost.work(self.group))]

    def order(self, name: str) -> list[KernelLaunch]:
        """The launches that leave the places in order, and which update each is of."""
        raise NotImplementedError

    def combine(self, elements: Elements, updates: Updates) -> None:
        """Writes the kernel that goes through the updates of each place."""
        raise NotImplementedError

    def place(self, elements: Elements, number: Expr) -> Expr:
        """Where an update goes."""
        place, inside = Updates(elements, self.results).place(self.at(number))
        place = elements.builder.let("place", place)
        return build.select(all_of(inside), place, build.index(NOWHERE)) if inside else place

    def at(self, number: Expr, columns: Sequence[Expr] | None = None) -> tuple[Expr, ...]:
        """The index into the updates of one of them, at its first element or at some counters of
        its window.
        """
        found: list[Expr] = [build.index(0)] * len(self.sizes)
        for axis, counter in zip(self.columns, columns or (), strict=False):
            found[axis] = counter
        for axis in reversed(self.rows):
            found[axis] = build.mod(number, self.sizes[axis])
            number = build.div(number, self.sizes[axis])
        return tuple(found)

    @contextmanager
    def first_of_its_place(self, elements: Elements, rank: Expr) -> Iterator[Expr]:
        """What is done at ranks whose update is the first of its place; yields the place."""
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
        """Where the updates of the place end that begin at a rank, by binary search."""
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
        """Combines the updates of one place, in their order; sums of floats in blocks."""
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
        """How far an element of a window lies from its first."""
        strides = row_major(updates.shape)
        axes = {spot: axis for axis, spot in updates.window.items()}
        return linear(tuple(columns), tuple(strides[axes[spot]] for spot in self.columns))


class _Here(Sorted):
    """The same on a CPU: threads share the places, vectors go along windows."""

    def __init__(
        self, group: Group, target: Target, results: Sequence[Value], lower_part: LowerPart
    ) -> None:
        super().__init__(group, target, results)
        self.lower_part = lower_part

    def windows(
        self, elements: Elements, updates: Updates, rank: Expr, stop: Expr, place: Expr
    ) -> None:
        """Adds the updates of one place from a rank on, all elements of their windows."""
        builder, target, loops = (
            elements.builder,
            self.target,
            [Run(self.sizes[a], (a,)) for a in self.columns],
        )
        found: dict[Run, Expr] = {}
        with serial_loops(builder, loops[:-1], found):
            before = [found[run] for run in loops[:-1]]

            def strip(bases: Sequence[Expr], wide: int, mask: Expr | None) -> None:
                with elements.masked(mask):
                    for base in bases:
                        inner = [*before, build.ramp(base, 1, wide)] if loops else []
                        self.gather(elements, updates, rank, stop, place, inner)

            if loops:
                strip_mine(builder, target, 0, loops[-1].extent, updates.lanes(target), 1, strip)
            else:
                strip([build.index(0)], 1, None)

    def order(self, name: str) -> list[KernelLaunch]:
        elements = Elements(Builder(), self.group, self.target)
        pieces = pieces_of(self.count, PIECE)
        given = [Scratch(DType.I64, self.count, hint) for hint in ("given", "numbers")]
        with parallel_loops(elements.builder, self.target, [pieces], PIECE * STEP) as counters:
            start = build.mul(counters[pieces], PIECE)
            with elements.builder.loop(
                "n", 0, piece(elements.builder, start, self.count, PIECE)
            ) as n:
                number = elements.builder.let("number", build.add(start, n))
                for scratch, value in zip(
                    given, (self.place(elements, number), number), strict=True
                ):
                    elements.store_to(elements.parameter(scratch, Access.WRITE), number, value)
        params = tuple(
            Node.of(Param(hint, Type(DType.I64, (self.count,)), "input"))
            for hint in ("places", "numbers")
        )
        sort = Node.of(Sort(axis=0), *params)
        picks = tuple(Node(Pick(index=k), (sort,), t) for k, t in enumerate(sort.results))
        made = self.lower_part(
            Group(Kind.SORT, sort, (sort, *picks), params, picks, "sorts updates"),
            self.target,
            name,
        )
        known = dict(zip((*params, *picks), (*given, self.places, self.numbers), strict=True))
        return [elements.launch(f"{name}_places"), *operands.with_scratch(made.launches, known)]

    def combine(self, elements: Elements, updates: Updates) -> None:
        ranks = Run(self.count, ())
        with parallel_loops(
            elements.builder,
            self.target,
            [ranks],
            STEP * size_hint(volume(self.sizes)) // max(1, ranks.usual),
        ) as counters:
            rank = counters[ranks]
            with self.first_of_its_place(elements, rank) as place:
                self.windows(elements, updates, rank, self.stop(elements, rank, place), place)


class _Counted(_Here):
    """Updates counted by the rows of the operand that they go to, of which there are not many more
    than updates.
    """

    def __init__(
        self, group: Group, target: Target, results: Sequence[Value], lower_part: LowerPart
    ) -> None:
        super().__init__(group, target, results, lower_part)
        known = Updates(Elements(Builder(), group, target), results)
        self.shape = known.shape
        self.axes = [
            a
            for a in range(len(self.shape))
            if a not in known.window or a in known.op.scatter_dims_to_operand_dims
        ]
        self.targets: Dim = volume(tuple(self.shape[a] for a in self.axes))
        self.ends = Scratch(DType.I64, self.targets + 2, "ends")
        self.homes = Scratch(DType.I64, self.count, "homes")

    def order(self, name: str) -> list[KernelLaunch]:
        """One launch: how many updates each row has, where they begin, and the updates in that
        order.
        """
        elements = Elements(Builder(), self.group, self.target)
        builder, updates = elements.builder, Updates(elements, self.results)
        ends, homes = (elements.parameter(s, Access.REREAD) for s in (self.ends, self.homes))
        numbers = elements.parameter(self.numbers, Access.WRITE)
        with builder.loop("r", 0, self.targets + 2) as r:
            builder.store(ends, r, build.index(0))
        with builder.loop("n", 0, self.count) as n:
            home = builder.let("home", self._home(updates, n))
            builder.store(homes, n, home)
            after = builder.let("after", build.add(home, 1))
            builder.store(ends, after, build.add(build.load(ends, after), 1))
        total = builder.variable("total", build.index(0))
        with builder.loop("r", 0, self.targets + 1) as r:
            builder.assign(total, build.apply(P.ADD, total, build.load(ends, r)))
            builder.store(ends, r, fixed(elements, total))
        with builder.loop("n", 0, self.count) as n:
            home = builder.let("home", build.load(homes, n))
            at = builder.let("at", build.load(ends, home))
            builder.store(numbers, at, n)
            builder.store(ends, home, build.add(at, 1))
        return [elements.launch(name)]

    def _home(self, updates: Updates, number: Expr) -> Expr:
        """The row that an update goes to; one more than the last for those that are out of range."""
        where, inside = updates.where(self.at(number))
        extents = [self.shape[a] for a in self.axes]
        row = linear(tuple(where[a] for a in self.axes), row_major(extents), extents)
        return build.select(all_of(inside), row, build.lift(self.targets)) if inside else row

    def combine(self, elements: Elements, updates: Updates) -> None:
        builder, rows = elements.builder, Run(self.targets, ())
        with parallel_loops(
            builder, self.target, [rows], STEP * size_hint(volume(self.sizes)) // max(1, rows.usual)
        ) as counters:
            row = counters[rows]
            ends = elements.parameter(self.ends, Access.READ)
            some = build.apply(P.LT, build.index(0), row)
            rank = builder.let("rank", build.load(ends, build.sub(row, 1), mask=some))
            stop = builder.let("stop", build.load(ends, row))
            with builder.when(build.apply(P.LT, rank, stop)):
                place: Expr = build.index(0)
                left: Expr = row
                strides = row_major(self.shape)
                for axis in reversed(self.axes):
                    place = build.add(
                        place, build.mul(build.mod(left, self.shape[axis]), strides[axis])
                    )
                    left = build.div(left, self.shape[axis])
                self.windows(elements, updates, rank, stop, builder.let("place", place))
