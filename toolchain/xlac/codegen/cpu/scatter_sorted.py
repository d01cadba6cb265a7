"""Scattered updates grouped by position, on a CPU: merge-sorted, or counted if there are not many
more positions than updates. Threads share the positions, vectors go along windows.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlac.codegen.core import operands
from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.accumulators import fixed
from xlac.codegen.core.addressing import linear, row_major
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.loop_nest import nest, piece, pieces_of, serial_loops
from xlac.codegen.core.lowered_group import KernelLaunch, LowerPart, Scratch, Value
from xlac.codegen.core.scatter import Updates, all_of
from xlac.codegen.core.scatter_sorted import SortedScatter
from xlac.codegen.core.strip_mining import strip_mine
from xlac.codegen.schedules.scatter import CountedScatterSchedule, SortedScatterSchedule
from xlac.fusion.group import Group, Kind
from xlac.ir.dims import Dim, volume
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops.control.control import Pick
from xlac.ops.reduction.order import Sort
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive


def rows_of(updates: Updates) -> Dim:
    """The number of rows of the operand that can be positions of updates."""
    return volume(tuple(updates.shape[a] for a in _row_axes(updates)))


def _row_axes(updates: Updates) -> list[int]:
    """The axes of the operand along which indices position an update."""
    return [
        a
        for a in range(len(updates.shape))
        if a not in updates.window or a in updates.op.scatter_dims_to_operand_dims
    ]


class _WindowSums(SortedScatter):
    """Common to both: vectors of `lanes` lanes along windows."""

    lanes: int

    def windows(
        self, elements: Elements, updates: Updates, rank: Expr, stop: Expr, place: Expr
    ) -> None:
        """Adds the updates of one position from a rank on, over all elements of their windows."""
        builder, loops = elements.builder, [Run(self.sizes[a], (a,)) for a in self.columns]
        counters: dict[Run, Expr] = {}
        with serial_loops(builder, loops[:-1], counters):
            before = [counters[run] for run in loops[:-1]]

            def strip(bases: Sequence[Expr], wide: int, mask: Expr | None) -> None:
                with elements.masked(mask):
                    for base in bases:
                        inner = [*before, build.ramp(base, 1, wide)] if loops else []
                        self.gather(elements, updates, rank, stop, place, inner)

            if loops:
                strip_mine(builder, self.target, 0, loops[-1].extent, self.lanes, 1, strip)
            else:
                strip([build.index(0)], 1, None)


class MergeSortedScatter(_WindowSums):
    """Updates merge-sorted by position."""

    def __init__(
        self,
        group: Group,
        target: Target,
        results: Sequence[Value],
        schedule: SortedScatterSchedule,
        lower_part: LowerPart,
    ) -> None:
        super().__init__(group, target, results)
        self.schedule, self.lanes, self.lower_part = schedule, schedule.lanes, lower_part

    def order(self, name: str) -> list[KernelLaunch]:
        """The positions and numbers of updates, then a sort of both."""
        elements = Elements(Builder(), self.group, self.target)
        each = self.schedule.places.piece
        pieces = pieces_of(self.count, each)
        given = [Scratch(DType.I64, self.count, hint) for hint in ("given", "numbers")]
        with nest(elements.builder, [pieces], self.schedule.places.threads) as counters:
            start = build.mul(counters[pieces], each)
            with elements.builder.loop(
                "n", 0, piece(elements.builder, start, self.count, each)
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
        sorted_updates = self.lower_part(
            Group(Kind.SORT, sort, (sort, *picks), params, picks, "sorts updates"),
            self.target,
            name,
        )
        known = dict(zip((*params, *picks), (*given, self.places, self.numbers), strict=True))
        return [
            elements.launch(f"{name}_places"),
            *operands.with_scratch(sorted_updates.launches, known),
        ]

    def combine(self, elements: Elements, updates: Updates) -> None:
        """A loop over sorted updates; the first of each position combines all of that position."""
        ranks = Run(self.count, ())
        with nest(elements.builder, [ranks], self.schedule.threads) as counters:
            rank = counters[ranks]
            with self.first_of_its_place(elements, rank) as place:
                self.windows(elements, updates, rank, self.stop(elements, rank, place), place)


class CountedScatter(_WindowSums):
    """Updates counting-sorted by the row of the operand that they update."""

    def __init__(
        self,
        group: Group,
        target: Target,
        results: Sequence[Value],
        schedule: CountedScatterSchedule,
    ) -> None:
        super().__init__(group, target, results)
        self.schedule, self.lanes = schedule, schedule.lanes
        known = Updates(Elements(Builder(), group, target), results)
        self.shape = known.shape
        self.axes = _row_axes(known)
        self.targets = rows_of(known)
        self.ends = Scratch(DType.I64, self.targets + 2, "ends")
        self.homes = Scratch(DType.I64, self.count, "homes")

    def order(self, name: str) -> list[KernelLaunch]:
        """One launch: the count of updates for each row, the start of each row's updates, and the
        updates in that order.
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
        """The row of an update; the number of rows for updates out of range."""
        where, inside = updates.where(self.at(number))
        extents = [self.shape[a] for a in self.axes]
        row = linear(tuple(where[a] for a in self.axes), row_major(extents), extents)
        return build.select(all_of(inside), row, build.lift(self.targets)) if inside else row

    def combine(self, elements: Elements, updates: Updates) -> None:
        """A loop over rows of the operand, each with its updates."""
        builder, rows = elements.builder, Run(self.targets, ())
        with nest(builder, [rows], self.schedule.threads) as counters:
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
