"""Scatter on a GPU: a thread for every element of the updates where their order does not matter, else sorted by place.

Sums of integers, and extremes, come out the same in any order: atomic operations combine them. So does anything where all
places differ. For the rest, sums of floats above all, the updates are sorted by their place; the sort is stable, so those
of one place stay in their order, and the first of them combines all: the result is the same every time.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ir.dims import Dim, most, volume
from xlac.ops import numeric
from xlac.ops.index import Scatter
from xlac.schedule import cost, scatter
from xlac.schedule.access import Run
from xlac.schedule.accumulate import fixed
from xlac.schedule.elements import Elements, linear, row_major
from xlac.schedule.gpu.grid import every
from xlac.schedule.gpu.merge import MergeSort
from xlac.schedule.group import Group, Launching, Scheduled, Scratch, Value
from xlac.schedule.scatter import Updates, all_of
from xlac_sdk import build
from xlac_sdk.build import Builder
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel import Access, Expr
from xlac_sdk.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive
NOWHERE = 2**62  # the place of updates that are out of range: after all others
ATOMIC_BYTES = (4, 8)  # sizes of elements that GPUs combine atomically


def schedule(group: Group, target: Target, name: str) -> Scheduled:
    """A copy of every operand, then the launches for the updates."""
    return scatter.schedule(group, target, name, _launches)


def _launches(group: Group, target: Target, name: str, results: Sequence[Value]) -> list[Launching]:
    op = group.hero.op
    assert isinstance(op, Scatter)
    if op.unique or _in_any_order(op, group.hero.results[0].dtype):
        elements = Elements(Builder(), group, target)
        _Each(elements, results).write()
        return [elements.launch(name, cost.work(group))]
    return _Sorted(group, target, results).launches(name)


def _in_any_order(op: Scatter, dtype: DType) -> bool:
    """Whether updates of one place may meet in any order, and atomically."""
    if dtype.nbytes not in ATOMIC_BYTES or dtype is DType.BOOL:
        return False
    return op.combine in ("max", "min") or (op.combine in ("add", "mul") and dtype.is_integer)


class _Each(Updates):
    """Writes the kernel in which every element of the updates has a thread."""

    def write(self) -> None:
        loops = [Run(n, (a,)) for a, n in enumerate(self.sizes)]
        with every(self.builder, self.elements.target, loops) as counters:
            at = tuple(counters[run] for run in loops)
            if self.op.unique:
                self.update(at, None)
            else:
                self._combine(at)

    def _combine(self, at: tuple[Expr, ...]) -> None:
        place, inside = self.place(at)
        (buffer,), (updates,) = self.buffers, self.updates
        primitive = numeric.COMBINE[self.op.combine]
        if not inside:
            self.builder.store(buffer, place, self.elements.at(updates, at), atomic=primitive)
            return
        with self.builder.when(all_of(inside)):
            self.builder.store(buffer, place, self.elements.at(updates, at), atomic=primitive)


class _Sorted:
    """The launches that sort updates by place and combine those of each.

    An update is a window where windows of different places have nothing in common, else an element.
    """

    def __init__(self, group: Group, target: Target, results: Sequence[Value]) -> None:
        self.group, self.target, self.results = group, target, results
        known = Updates(Elements(Builder(), group, target), results)
        self.sizes = known.sizes
        sliding = [a for a in known.window if a in known.op.scatter_dims_to_operand_dims and self.sizes[known.window[a]] != 1]
        self.columns = [] if sliding else sorted(known.op.update_window_dims)
        self.rows = [a for a in range(len(self.sizes)) if a not in self.columns]
        self.count: Dim = volume(tuple(self.sizes[a] for a in self.rows))
        self.places, self.numbers = Scratch(DType.I64, self.count, "places"), Scratch(DType.I64, self.count, "order")

    def launches(self, name: str) -> list[Launching]:
        """Those of the sort, then one."""
        sorter = MergeSort(
            self.group, self.target, 1, self.count, [DType.I64, DType.I64], 1, self._before, self._read, self._keep
        )
        found = sorter.launches(f"{name}_order")
        elements = Elements(Builder(), self.group, self.target)
        self._combine(elements, Updates(elements, self.results))
        return [*found, elements.launch(name, cost.work(self.group))]

    # ---- the order ---------------------------------------------------------------------------

    def _before(self, elements: Elements, a: Sequence[Expr], b: Sequence[Expr]) -> Expr:
        return build.apply(P.LT, a[0], b[0])

    def _read(self, elements: Elements, string: Expr, number: Expr) -> list[Expr]:
        """Where an update goes, and its number."""
        place, inside = Updates(elements, self.results).place(self._at(number))
        place = elements.builder.let("place", place)
        return [build.select(all_of(inside), place, build.index(NOWHERE)) if inside else place, number]

    def _keep(self, elements: Elements, string: Expr, place: Expr, values: Sequence[Expr]) -> None:
        for scratch, value in zip((self.places, self.numbers), values, strict=True):
            elements.store_to(elements.parameter(scratch, Access.WRITE), place, value)

    def _at(self, number: Expr, columns: Sequence[Expr] | None = None) -> tuple[Expr, ...]:
        """The index into the updates of one of them, at its first element or at some counters of its window."""
        found: list[Expr] = [build.index(0)] * len(self.sizes)
        for axis, counter in zip(self.columns, columns or (), strict=False):
            found[axis] = counter
        for axis in reversed(self.rows):
            found[axis] = build.mod(number, self.sizes[axis])
            number = build.div(number, self.sizes[axis])
        return tuple(found)

    # ---- combining ---------------------------------------------------------------------------

    def _combine(self, elements: Elements, updates: Updates) -> None:
        """A thread for every element of an update; that of the first update of a place goes through all of them."""
        builder = elements.builder
        ranks, columns = Run(self.count, ()), [Run(self.sizes[a], (a,)) for a in self.columns]
        places = elements.parameter(self.places, Access.READ)
        with every(builder, self.target, [ranks, *columns]) as counters:
            rank = counters[ranks]
            place = builder.let("place", build.load(places, rank))
            some = build.apply(P.LT, build.index(0), rank)
            before = builder.let("before", build.load(places, build.sub(rank, 1), mask=some))
            first = build.apply(P.OR, build.apply(P.EQ, rank, build.index(0)), build.apply(P.NE, before, place))
            with builder.when(build.apply(P.AND, first, build.apply(P.LT, place, build.index(NOWHERE)))):
                stop = self._stop(elements, rank, place)
                inner = [counters[run] for run in columns]
                self._gather(elements, updates, rank, stop, place, inner)

    def _stop(self, elements: Elements, rank: Expr, place: Expr) -> Expr:
        """Where the updates of the place end that begin at a rank, by binary search."""
        builder = elements.builder
        places = elements.parameter(self.places, Access.READ)
        low, high = builder.variable("low", build.add(rank, 1)), builder.variable("high", build.lift(self.count))
        with builder.loop("step", 0, most(self.count).bit_length()):
            a, b = fixed(elements, low), fixed(elements, high)
            with builder.when(build.apply(P.LT, a, b)):
                half = builder.let("half", build.apply(P.SHR, build.add(a, b), build.index(1)))
                same = builder.let("same", build.apply(P.EQ, build.load(places, half), place))
                builder.assign(low, build.select(same, build.add(half, 1), a))
                builder.assign(high, build.select(same, b, half))
        return fixed(elements, low)

    def _gather(
        self, elements: Elements, updates: Updates, rank: Expr, stop: Expr, place: Expr, columns: Sequence[Expr]
    ) -> None:  # fmt: skip
        """Combines the updates of one place, in their order."""
        builder, op = elements.builder, updates.op
        numbers = elements.parameter(self.numbers, Access.READ)
        where = builder.let("where", build.add(place, self._inside(updates, columns)))
        if op.combine == "assign":
            at = self._at(builder.let("number", build.load(numbers, build.sub(stop, 1))), columns)
            for buffer, update in zip(updates.buffers, updates.updates, strict=True):
                elements.store_to(buffer, where, elements.at(update, at))
            return
        states = [builder.variable("state", elements.load(b, where)) for b in updates.buffers]
        with builder.loop("r", rank, stop) as r:
            at = self._at(builder.let("number", build.load(numbers, r)), columns)
            news = [elements.at(update, at) for update in updates.updates]
            olds = [fixed(elements, state) for state in states]
            if op.body is not None:
                news = list(elements.inline(op.body, [*olds, *news]))
            else:
                news = [build.apply(numeric.COMBINE[op.combine], olds[0], news[0])]
            for state, buffer, value in zip(states, updates.buffers, news, strict=True):
                builder.assign(state, build.cast(build.cast(value, buffer.dtype), buffer.dtype.compute))
        for buffer, state in zip(updates.buffers, states, strict=True):
            elements.store_to(buffer, where, fixed(elements, state))

    def _inside(self, updates: Updates, columns: Sequence[Expr]) -> Expr:
        """How far an element of a window lies from its first."""
        strides = row_major(updates.shape)
        axes = {spot: axis for axis, spot in updates.window.items()}
        return linear(tuple(columns), tuple(strides[axes[spot]] for spot in self.columns))

