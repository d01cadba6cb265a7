"""Bounds for the first elements of a line in sort order: one that at least `kept` elements reach,
from the leading elements of its columns, or the exact one, from all elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlac.codegen.core.accumulators import fixed
from xlac.codegen.core.strip_mining import strip_mine
from xlac.codegen.cpu.sort.lines import Lines
from xlac.codegen.cpu.sort.order_keys import key_dtype, least
from xlac.codegen.schedules.sort import SelectionSchedule
from xlac.ir.dims import Dim
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Const, Expr, Var
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive

FEW = 8  # vectors of columns that stay in registers

Count = Callable[[Expr], Expr]
"""The number of keys that are at least a given one."""


class Bound:
    """The bound for one line; `value` is a variable."""

    def __init__(self, lines: Lines, schedule: SelectionSchedule) -> None:
        assert isinstance(lines.kept, int)
        self.lines, self.builder, self.schedule = lines, lines.builder, schedule
        self.elements, self.kept, self.lanes = lines.elements, lines.kept, schedule.lanes
        self.kind = key_dtype(lines.dtypes[0])
        self.vectors = -(-schedule.groups // self.lanes)  # per row
        self.tops, self.tops_at = lines.memory("tops", self.kind, self.vectors * self.lanes)
        self._columns()
        self.value = self.builder.variable("bound", Const(least(self.kind), self.kind))
        self._search(self._count_tops)

    def exact(self) -> None:
        """Sets the bound to the key that exactly `kept` elements reach, not counting further equal
        ones.
        """
        self.builder.assign(self.value, Const(least(self.kind), self.kind))
        self._search(self._count_line)

    def _columns(self) -> None:
        """The first key of each column. The last vector of a row may overlap the one before; lanes
        that do hold no column, until elements that fill no row are shared among all lanes. So
        no element is in two of them, and each has its own where a line is no longer than a row.
        """
        builder, lanes, groups = self.builder, self.lanes, self.schedule.groups
        rows, twice = self.lines.count // groups, self.vectors * lanes - groups
        places = [n * lanes for n in range(self.vectors)]
        if twice:
            places[-1] = groups - lanes
        last = Const(least(self.kind), self.kind, lanes)
        with builder.loop("g", 0, self.vectors * lanes, lanes) as g:
            builder.store(self.tops, build.ramp(build.add(self.tops_at, g), 1, lanes), last)
        self._rows(rows, places)
        if twice:
            at = build.ramp(build.add(self.tops_at, (self.vectors - 1) * lanes), 1, lanes)
            lane = build.ramp(build.index(0), 1, lanes)
            again = build.apply(P.LT, lane, build.index(twice))
            builder.store(self.tops, at, build.select(again, last, build.load(self.tops, at)))
        first = rows * groups

        def rest(firsts: Sequence[Expr], wide: int, mask: Expr | None) -> None:
            for place in firsts:
                self._raise(build.sub(place, first), place, wide, mask)

        strip_mine(builder, self.elements.target, first, self.lines.count - first, lanes, 1, rest)

    def _rows(self, rows: Dim, places: Sequence[int]) -> None:
        """The first keys of columns over whole rows, whose vectors begin at `places`."""
        builder, lanes, groups = self.builder, self.lanes, self.schedule.groups
        if len(places) > FEW:
            with builder.loop("row", 0, rows) as row:
                start = builder.let("start", build.mul(row, groups))
                with builder.loop("g", 0, places[-2] + lanes, lanes) as g:
                    self._raise(g, build.add(start, g), lanes, None)
                at = build.add(start, places[-1])
                self._raise(build.index(places[-2] + lanes), at, lanes, None)
            return
        worst = Const(least(self.kind), self.kind, lanes)
        tops = [builder.variable("top", worst) for _ in places]
        with builder.loop("row", 0, rows) as row:
            for place, top in zip(places, tops, strict=True):
                keys = self.lines.keys(build.add(build.mul(row, groups), place), lanes)
                builder.assign(top, build.apply(P.MAX, top, keys))
        for number, top in enumerate(tops):
            at = build.add(self.tops_at, number * lanes)
            builder.store(self.tops, build.ramp(at, 1, lanes), top)

    def _raise(self, group: Expr, first: Expr, wide: int, mask: Expr | None) -> None:
        """Updates the first keys of columns from `group` on, with elements from `first` on."""
        at = build.ramp(build.add(self.tops_at, group), 1, wide)
        known = build.load(self.tops, at)
        top = build.apply(P.MAX, known, self.lines.keys(first, wide, mask))
        self.builder.store(self.tops, at, top)

    def _search(self, count: Count) -> None:
        """Sets the bound to the greatest key that at least `kept` keys reach, by bitwise search."""
        builder, bits = self.builder, 8 * self.kind.nbytes
        with builder.loop("bit", 0, bits) as bit:
            step = build.apply(
                P.SHL, Const(1, self.kind), build.cast(build.sub(bits - 1, bit), self.kind)
            )
            trial = builder.let("trial", build.apply(P.ADD, self.value, step))
            many = build.apply(P.LE, build.index(self.kept), count(trial))
            with builder.when(many):
                builder.assign(self.value, trial)

    def _count_tops(self, trial: Expr) -> Expr:
        builder, lanes = self.builder, self.lanes
        total = builder.variable("total", Const(0, self.kind, lanes))
        with builder.loop("g", 0, self.vectors * lanes, lanes) as g:
            tops = build.load(self.tops, build.ramp(build.add(self.tops_at, g), 1, lanes))
            self._tally(total, tops, trial)
        return build.cast(build.fold(P.ADD, fixed(self.elements, total)), build.INDEX)

    def _count_line(self, trial: Expr) -> Expr:
        builder, lanes = self.builder, self.lanes
        total = builder.variable("total", Const(0, self.kind, lanes))
        single = builder.variable("total", Const(0, self.kind))

        def strip(firsts: Sequence[Expr], wide: int, mask: Expr | None) -> None:
            for first in firsts:
                keys = self.lines.keys(first, wide, mask)
                # masked lanes hold the least key, which is never tried
                self._tally(total if wide == lanes else single, keys, trial)

        target, length = self.elements.target, self.lines.count
        strip_mine(builder, target, 0, length, lanes, self.schedule.unroll, strip)
        whole = build.fold(P.ADD, fixed(self.elements, total))
        total_of = build.apply(P.ADD, whole, fixed(self.elements, single))
        return build.cast(total_of, build.INDEX)

    def _tally(self, total: Var, keys: Expr, trial: Expr) -> None:
        ones, none = (Const(n, self.kind, total.lanes) for n in (1, 0))
        goes = build.apply(P.LE, build.splat(trial, keys.lanes), keys)
        self.builder.assign(total, build.apply(P.ADD, total, build.select(goes, ones, none)))
