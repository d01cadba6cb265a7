"""The first elements of lines in sort order, without sorting the rest.

A line is seen as rows of `groups` elements. The first key of each column is found, and of these the
`kept`th: at least that many elements reach it, whatever the order of the line, and in a random line
hardly more do. A second pass over the line collects them: elements before the bound, and those
equal to it up to `kept`, in the order of the line. If they exceed the buffer (because the first
elements lie in few columns), the exact bound is found by bisection, bit by bit, and the line is
read again; so no order of a line costs more than a fixed number of passes. The elements before the
bound are sorted, and those equal to it follow.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlac.codegen.core.accumulators import fixed
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.core.strip_mining import strip_mine
from xlac.codegen.cpu.sort.bound import Bound
from xlac.codegen.cpu.sort.lines import Lines
from xlac.codegen.cpu.sort.merge_sort import Merge
from xlac.codegen.cpu.sort.order_keys import key_dtype, least
from xlac.codegen.cpu.sort.rank_sort import ranks
from xlac.codegen.schedules.sort import SelectionSchedule
from xlac.ir.dims import upper_bound
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Const, Expr, Var
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive

RANKED = 256  # vectors of selected elements that are sorted by counting; more are merge-sorted
SPARE = 64  # buffer space for candidates beyond twice `kept`


def select_first(lines: Lines, schedule: SelectionSchedule) -> None:
    """Writes the kernel."""
    with lines.inside(schedule.threads):
        _Selection(lines, schedule).write()


class _Selection:
    """Selects from one line."""

    def __init__(self, lines: Lines, schedule: SelectionSchedule) -> None:
        assert isinstance(lines.kept, int)
        self.lines, self.builder, self.schedule = lines, lines.builder, schedule
        self.elements, self.kept, self.lanes = lines.elements, lines.kept, schedule.lanes
        self.kind = key_dtype(lines.dtypes[0])
        most = upper_bound(lines.count)
        self.exact = most <= schedule.groups  # columns of one element each
        self.room = self.kept if self.exact else 2 * self.kept + SPARE
        self.places = DType.I32 if most < 1 << 31 else DType.I64
        # with padding to a whole vector, and an element for discarded writes
        self.apart = wide = self.room + self.lanes + 1
        self.halves = 1 if self.kept <= RANKED * self.lanes else 2
        self.keys, self.keys_at = lines.memory("keys", self.kind, wide * self.halves)
        self.picked, self.picked_at = lines.memory("found", self.places, wide * self.halves)
        self.equal, self.equal_at = lines.memory("equal", self.places, self.kept + 1)

    def write(self) -> None:
        builder = self.builder
        bound = Bound(self.lines, self.schedule)
        before, equal = (builder.variable(hint, build.index(0)) for hint in ("before", "equal"))
        if self.exact:
            self._collect(bound.value, before, equal)
        else:
            with builder.loop("attempt", 0, 2) as attempt:
                full = build.apply(P.LT, build.index(self.room), fixed(self.elements, before))
                full = builder.let("full", full)
                first = build.apply(P.EQ, attempt, build.index(0))
                with builder.when(full):
                    bound.exact()
                    builder.assign(before, build.index(0))
                    builder.assign(equal, build.index(0))
                with builder.when(build.apply(P.OR, first, full)):
                    self._collect(bound.value, before, equal)
        selected = bounded(builder, fixed(self.elements, before), self.room)
        self._ordered(selected)
        self._ties(selected)

    # ---- candidates --------------------------------------------------------------------------

    def _collect(self, bound: Var, before: Var, equal: Var) -> None:
        """Collects the elements before the bound, and those equal to it up to `kept`, in the order
        of the line.
        """
        builder, lanes = self.builder, self.lanes
        exact = fixed(self.elements, bound)
        # once there are enough equal elements, only earlier ones are collected
        least_wanted = builder.variable("wanted", exact)
        seen = builder.local("seen", self.kind, lanes)

        def one(place: Expr, key: Expr) -> None:
            self._append(place, key, exact, before, equal)

        def vector(first: Expr, keys: Expr, wanted: Expr) -> None:
            with builder.when(_any(wanted)):
                builder.store(seen, build.ramp(build.index(0), 1, lanes), keys)
                with builder.loop("lane", 0, lanes) as lane:
                    key = builder.let("key", build.load(seen, lane))
                    place = build.add(first, lane)
                    there = build.apply(P.LT, place, build.lift(self.lines.count))
                    wanted = build.apply(P.LE, fixed(self.elements, least_wanted), key)
                    with builder.when(build.apply(P.AND, there, wanted)):
                        one(place, key)

        def strip(firsts: Sequence[Expr], wide: int, mask: Expr | None) -> None:
            keys = [self.lines.keys(first, wide, mask) for first in firsts]
            wanted = fixed(self.elements, least_wanted)
            some = [
                builder.let("some", build.apply(P.LE, build.splat(wanted, wide), k)) for k in keys
            ]
            together = some[0]
            for other in some[1:]:
                together = build.apply(P.OR, together, other)
            with builder.when(_any(together)):
                for first, key, goes in zip(firsts, keys, some, strict=True):
                    if wide == 1:
                        with builder.when(goes):
                            one(first, key)
                    else:
                        vector(first, key, goes)
                enough = build.apply(P.LE, build.index(self.kept), fixed(self.elements, equal))
                last = Const(~least(self.kind), self.kind)
                more = build.apply(P.LT, exact, last)
                with builder.when(build.apply(P.AND, enough, more)):
                    builder.assign(least_wanted, build.apply(P.ADD, exact, Const(1, self.kind)))

        strip_mine(
            builder, self.elements.target, 0, self.lines.count, lanes, self.schedule.unroll, strip
        )

    def _append(self, place: Expr, key: Expr, bound: Expr, before: Var, equal: Var) -> None:
        """Appends one element to those before the bound, or to those equal to it."""
        builder = self.builder
        goes = builder.let("goes", build.apply(P.LT, bound, key))
        ties = build.apply(P.EQ, bound, key)
        at = build.apply(P.MIN, fixed(self.elements, before), build.index(self.room))
        at = bounded(builder, at, self.room)
        number = build.cast(place, self.places)
        with builder.when(goes):
            builder.store(self.keys, build.add(self.keys_at, at), key)
            builder.store(self.picked, build.add(self.picked_at, at), number)
            builder.assign(before, build.add(fixed(self.elements, before), 1))
        room = build.apply(P.LT, fixed(self.elements, equal), build.index(self.kept))
        with builder.when(build.apply(P.AND, ties, room)):
            to = bounded(builder, fixed(self.elements, equal), self.kept)
            builder.store(self.equal, build.add(self.equal_at, to), number)
            builder.assign(equal, build.add(to, 1))

    # ---- results -----------------------------------------------------------------------------

    def _ordered(self, count: Expr) -> None:
        """Writes the elements before the bound, sorted."""
        if self.halves == 1:

            def place(i: Expr, rank: Expr) -> None:
                with self.builder.when(build.apply(P.LT, rank, build.index(self.kept))):
                    source = build.load(self.picked, build.add(self.picked_at, i))
                    self._write(bounded(self.builder, rank, self.kept - 1), source)

            rest = build.ramp(build.add(self.keys_at, count), 1, self.lanes)
            self.builder.store(self.keys, rest, Const(least(self.kind), self.kind, self.lanes))
            ranks(self.builder, self.keys, self.keys_at, count, self.lanes, place)
            return
        builder, load = self.builder, self.elements.load
        both, base = (self.keys, self.picked), self.keys_at  # they begin at the same element
        merge = Merge(self.elements, both, base, count, _greater_first, self.apart)
        done = merge.every(self.room)
        most = build.apply(P.MIN, count, build.index(self.kept))
        with builder.loop("k", 0, most) as k:
            self._write(k, load(self.picked, build.add(done, k)))

    def _ties(self, count: Expr) -> None:
        """Writes the elements equal to the bound after them."""
        builder = self.builder
        with builder.loop("k", count, self.kept) as k:
            at = bounded(builder, build.sub(k, count), self.kept)
            self._write(k, build.load(self.equal, build.add(self.equal_at, at)))

    def _write(self, k: Expr, place: Expr) -> None:
        """Writes the record at position `place` of the line as result k."""
        last = upper_bound(self.lines.count) - 1
        self.lines.store(
            k, self.lines.read(bounded(self.builder, build.cast(place, build.INDEX), last))
        )


def _greater_first(a: Sequence[Expr], b: Sequence[Expr]) -> Expr:
    return build.apply(P.LT, b[0], a[0])


def _any(mask: Expr) -> Expr:
    return build.fold(P.OR, mask)
