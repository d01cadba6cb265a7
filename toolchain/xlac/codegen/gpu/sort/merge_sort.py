"""A stable merge sort on a GPU: every element finds its position in the merge of two runs by a
binary search in the other run.

An element's new position is its index in its own run plus the number of elements of the other run
that precede it; among equals, those of the left run come first. Runs of up to a tile are merged in
SHARED memory, all levels in one launch; after that one launch for each level merges runs in memory,
from one scratch array into the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.accumulators import fixed
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.core.lowered_group import KernelLaunch, Scratch
from xlac.codegen.gpu.core.grid import GridThread, every, grid
from xlac.codegen.gpu.sort.choose import check, choose
from xlac.codegen.schedules.decisions import Decisions
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, ceil_div, upper_bound
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive

Read = Callable[[Elements, Expr, Expr], list[Expr]]
"""Reads the values of a record at a position of a line."""
Write = Callable[[Elements, Expr, Expr, Sequence[Expr]], None]
"""Receives the record at a position of a sorted line."""
Before = Callable[[Elements, Sequence[Expr], Sequence[Expr]], Expr]
"""Whether a record sorts strictly before another."""


class MergeSort:
    """Sorts `strings` lines of `count` records, with values of some types; the first `compared` of
    them are the keys.
    """

    def __init__(
        self,
        group: Group,
        target: Target,
        strings: Dim,
        count: Dim,
        dtypes: Sequence[DType],
        compared: int,
        before: Before,
        read: Read,
        write: Write,
    ) -> None:
        self.group, self.target, self.strings, self.count = group, target, strings, count
        self.dtypes, self.compared, self.before = dtypes, compared, before
        self.read, self.write = read, write
        self.elements = Elements(Builder(), group, target)

    def launches(self, name: str, decisions: Decisions) -> list[KernelLaunch]:
        """The first launch sorts tiles, the others merge them; the last passes the sorted records
        to `write`.
        """
        each = sum(d.nbytes for d in self.dtypes)
        self.schedule = decisions.settle(
            name,
            choose(self.target, self.strings, self.count, each),
            partial(check, target=self.target, each=each),
        )
        self.tile = self.schedule.tile
        self.levels = self.tile.bit_length() - 1
        further = (max(1, -(-upper_bound(self.count) // self.tile)) - 1).bit_length()
        work = cost.work(self.group)
        if not further:
            self._tiles(self.write)
            return [self.elements.launch(name, work)]
        size = self.strings * self.count
        halves = [[Scratch(d, size, "sorted") for d in self.dtypes] for _ in range(min(2, further))]
        self._tiles(self._keep(halves[0]))
        launches = [self.elements.launch(f"{name}_tiles", work)]
        for level in range(further):
            self.elements = Elements(Builder(), self.group, self.target)
            last = level == further - 1
            write = self.write if last else self._keep(halves[(level + 1) % 2])
            self._merge(halves[level % 2], self.tile << level, write)
            launches.append(self.elements.launch(name if last else f"{name}_merge{level}"))
        return launches

    def _keep(self, scratch: Sequence[Scratch]) -> Write:
        """Writes records to the scratch memory that the next launch reads."""

        def write(elements: Elements, string: Expr, place: Expr, values: Sequence[Expr]) -> None:
            for one, value in zip(scratch, values, strict=True):
                at = build.add(build.mul(string, self.count), place)
                elements.store_to(elements.parameter(one, Access.WRITE), at, value)

        return write

    # ---- tiles, in SHARED memory -------------------------------------------------------------

    def _tiles(self, write: Write) -> None:
        """Sorts every tile of each line; several short lines share a block."""
        builder, tile = self.elements.builder, self.tile
        side, threads = self.schedule.strings, self.schedule.threads
        total = side * tile
        pieces = ceil_div(self.count, tile)
        with grid(builder, self.target, ceil_div(self.strings, side) * pieces, threads) as here:
            piece = builder.let("piece", build.mod(here.block, pieces))
            group = builder.let("strings", build.mul(build.div(here.block, pieces), side))
            start = builder.let("start", build.mul(piece, tile))
            length = build.apply(P.MIN, build.index(tile), build.sub(build.lift(self.count), start))
            length = bounded(builder, length, tile)
            buffers = [here.shared("tile", d, 2 * total) for d in self.dtypes]

            each = partial(self._each, here, total, group, length)

            def take(string: Expr, place: Expr, first: Expr) -> None:
                values = self.read(self.elements, string, build.add(start, place))
                for buffer, value in zip(buffers, values, strict=True):
                    self.elements.store_to(buffer, build.add(first, place), value)

            each(take)
            builder.barrier()
            with builder.loop("level", 0, self.levels) as level:
                odd = builder.let("odd", build.apply(P.AND, level, build.index(1)))
                source = builder.let("from", build.apply(P.MUL, odd, build.index(total)))
                other = builder.let("into", build.sub(total, source))
                width = builder.let("width", build.apply(P.SHL, build.index(1), level))

                def move(string: Expr, place: Expr, first: Expr) -> None:
                    base = builder.let("base", build.add(source, first))
                    values, to = self._placed(
                        buffers, base, place, length, width, build.add(level, 1)
                    )
                    for buffer, value in zip(buffers, values, strict=True):
                        self.elements.store_to(
                            buffer, build.add(build.add(other, first), to), value
                        )

                each(move)
                builder.barrier()

            done = total * (self.levels % 2)

            def give(string: Expr, place: Expr, first: Expr) -> None:
                at = build.add(build.add(first, place), done)
                write(
                    self.elements,
                    string,
                    build.add(start, place),
                    [self._load(b, at) for b in buffers],
                )

            each(give)

    def _each(
        self,
        here: GridThread,
        total: int,
        group: Expr,
        length: Expr,
        work: Callable[[Expr, Expr, Expr], None],
    ) -> None:
        """Calls `work` for every record of the block: its line, its position in the tile, and the
        tile's start.
        """
        builder, tile = self.elements.builder, self.tile
        with builder.loop("k", 0, total, here.threads) as k:
            at = builder.let("at", build.add(k, here.thread))
            string, place = build.add(group, build.div(at, tile)), build.mod(at, tile)
            inside = build.apply(P.LT, place, length)
            inside = build.apply(P.AND, inside, build.apply(P.LT, string, build.lift(self.strings)))
            if total % here.threads:
                inside = build.apply(P.AND, inside, build.apply(P.LT, at, build.index(total)))
            with builder.when(inside):
                first = build.sub(at, place)
                place = builder.let("place", place)
                work(string, place, builder.let("first", first))

    def _load(self, buffer: Buffer, at: Expr) -> Expr:
        return self.elements.builder.let("x", self.elements.load(buffer, at))

    # ---- merges in memory --------------------------------------------------------------------

    def _merge(self, source: Sequence[Scratch], width: int, write: Write) -> None:
        """Merges pairs of runs of `width` records; a run without a partner is copied."""
        strings, places = Run(self.strings, ()), Run(self.count, (0,))
        threads = self.schedule.merge_threads
        with every(self.elements.builder, self.target, [strings, places], threads) as counters:
            buffers = [self.elements.parameter(s, Access.READ) for s in source]
            string, place = counters[strings], counters[places]
            base = self.elements.builder.let("base", build.mul(string, self.count))
            steps = build.index(width.bit_length())
            values, to = self._placed(
                buffers, base, place, build.lift(self.count), build.index(width), steps
            )
            write(self.elements, string, to, values)

    def _placed(
        self,
        buffers: Sequence[Buffer],
        base: Expr,
        place: Expr,
        length: Expr,
        width: Expr,
        steps: Expr,
    ) -> tuple[list[Expr], Expr]:
        """The record at a position of a segment of `length` that begins at `base`, and its position
        after runs of `width` are merged in pairs; a run has fewer than 2^steps records.
        """
        builder = self.elements.builder
        own = [self._load(b, build.add(base, place)) for b in buffers]
        both = builder.let("both", build.add(width, width))
        low = builder.let("low", build.sub(place, build.apply(P.AND, place, build.sub(both, 1))))
        middle = builder.let("middle", build.apply(P.MIN, build.add(low, width), length))
        high = builder.let("high", build.apply(P.MIN, build.add(low, both), length))
        right = builder.let("right", build.apply(P.LE, middle, place))
        first = builder.variable("first", build.select(right, low, middle))
        last = builder.variable("last", build.select(right, middle, high))
        with builder.loop("step", 0, steps):
            a, b = fixed(self.elements, first), fixed(self.elements, last)
            with builder.when(build.apply(P.LT, a, b)):
                half = builder.let("half", build.apply(P.SHR, build.add(a, b), build.index(1)))
                there = [
                    self._load(buffer, build.add(base, half)) for buffer in buffers[: self.compared]
                ]
                before = builder.let("before", self._goes_first(there, own[: self.compared], right))
                builder.assign(first, build.select(before, build.add(half, 1), a))
                builder.assign(last, build.select(before, b, half))
        return own, build.sub(build.add(place, fixed(self.elements, first)), middle)

    def _goes_first(self, there: Sequence[Expr], own: Sequence[Expr], right: Expr) -> Expr:
        """Whether a record of the other run precedes one: among equals, those of the
        left run do.
        """
        a = [build.select(right, mine, other) for mine, other in zip(own, there, strict=True)]
        b = [build.select(right, other, mine) for mine, other in zip(own, there, strict=True)]
        return build.apply(P.XOR, self.before(self.elements, a, b), right)
