"""Partitions loops at their seams: several loops over ranges of the counter, in each of which fewer
comparisons remain.

The cases of a name that holds an index, and of the counter of a PARALLEL loop, are separated by
conditions instead. Iterations keep their order and their vectors, so results are bitwise the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd

from xlac.codegen.core.seams.breakpoints import Seam, counters, few, seams
from xlac.codegen.core.seams.dead import without_unused
from xlac.codegen.core.seams.folding import Identifiers, LoopRegion
from xlac.codegen.core.seams.opportunities import has_seams, weight
from xlac.codegen.core.seams.ranges import (
    clamped,
    count,
    dividend,
    facts_of,
    inside,
    narrowed,
    on_grid,
    places_of,
    ranges,
)
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import (
    Allocate,
    Assign,
    Await,
    Barrier,
    Const,
    Expr,
    For,
    If,
    Instruction,
    Kernel,
    Let,
    LoopKind,
    Prefetch,
    Stmt,
    Store,
    Var,
    names,
    statements,
)
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive

CODE = 3800  # the most expressions of a loop nest after partitioning, which bounds compile time
LEAST = 4  # regions for which there is room at least
ROWS = 3  # regions of a loop around another one with seams, where both do not fit


def partitioned(kernel: Kernel, regions: int) -> Kernel:
    """The kernel with at most `regions` regions per loop nest; the same object if no comparison is
    decided.
    """
    if any(isinstance(stmt, Barrier | Await | Instruction) for stmt in statements(kernel.body)):
        return kernel
    if LEAST * weight(kernel.body) > CODE:
        return kernel
    identifiers = Identifiers(names(kernel))
    whole = LoopRegion(identifiers, values={size.name: size for size in kernel.sizes})
    body = tuple(_Partition(whole, regions, {}).block(kernel.body))
    return replace(kernel, body=without_unused(body)) if identifiers.decided else kernel


@dataclass(slots=True)
class _Partition:
    """Writes a block of a region with at most `budget` regions inside."""

    region: LoopRegion
    budget: int
    known: dict[int, bool]  # whether blocks, by id, have seams

    def block(self, body: Sequence[Stmt]) -> Iterator[Stmt]:
        """The rewritten statements."""
        for number, stmt in enumerate(body):
            if not isinstance(stmt, Let):
                yield from self._stmt(stmt)
                continue
            new = self.region.let(stmt)
            if new is None:
                continue
            yield new
            if self.budget > 1 and not new.mutable and self._apart(new.var):
                cases = self._cases(stmt.var, new.var, body[number + 1 :])
                if cases is not None:
                    yield from cases
                    return

    def _apart(self, var: Var) -> bool:
        """Whether a name is an index whose cases conditions may separate."""
        return var.dtype is build.INDEX and var.lanes == 1 and var.name not in self.region.forms

    def _stmt(self, stmt: Stmt) -> Iterator[Stmt]:
        region = self.region
        match stmt:
            case Assign(var=var, value=value):
                name = region.expr(var)
                assert isinstance(name, Var)
                yield Assign(name, region.expr(value))
            case Store():
                yield region.store(stmt)
            case For(kind=LoopKind.PARALLEL):
                yield self._parallel(stmt)
            case For():
                yield from self._loop(stmt)
            case If():
                yield from self._if(stmt)
            case Allocate(buffer=buffer):
                yield Allocate(region.allocated(buffer))
            case Prefetch(buffer=buffer, index=index):
                yield replace(stmt, buffer=region.buffer(buffer), index=region.expr(index))
            case Let() | Barrier() | Await() | Instruction():
                raise AssertionError(f"{type(stmt).__name__} is not partitioned")

    def _if(self, stmt: If) -> Iterator[Stmt]:
        condition = self.region.expr(stmt.condition)
        if isinstance(condition, Const):
            chosen = stmt.then if condition.value else stmt.otherwise
            yield from _Partition(self.region, self.budget, self.known).block(chosen)
            return
        blocks = [
            tuple(_Partition(self.region.inner(), self.budget, self.known).block(block))
            for block in (stmt.then, stmt.otherwise)
        ]
        yield If(condition, blocks[0], blocks[1])

    # ---- conditions --------------------------------------------------------------------------

    def _parallel(self, stmt: For) -> For:
        region = self.region.inner()
        start, stop = self.region.expr(stmt.start), self.region.expr(stmt.stop)
        counter = region.bind(stmt.counter, stmt.counter)
        assert isinstance(counter, Var)
        inner = _Partition(region, self.budget, self.known)
        cases = inner._cases(stmt.counter, counter, stmt.body, stop)
        body = tuple(inner.block(stmt.body) if cases is None else cases)
        return replace(stmt, counter=counter, start=start, stop=stop, body=body)

    def _cases(
        self, old: Var, var: Var, rest: Sequence[Stmt], stop: Expr | None = None
    ) -> list[Stmt] | None:
        """The remainder of a block, once for each range of an index; None if it has no seams
        there.
        """
        if var.low is None or var.high is None:
            return None
        end = build.index(var.high + 1) if stop is None else stop
        crossed = self._chosen(old, var, build.index(var.low), end, 1, rest)
        if not crossed:
            return None
        places = places_of(crossed)
        budget = max(1, self.budget // (len(places) + 1))
        blocks = list[tuple[Stmt, ...]]()
        for number, (least, most) in enumerate(ranges(places)):
            near = narrowed(var, least, most)
            inner = self.region.inner(*facts_of(near, least, most), renames=number > 0)
            inner.values[old.name] = near
            blocks.append(tuple(_Partition(inner, budget, self.known).block(rest)))
        result = blocks.pop()
        for place in reversed(places):
            result = (If(build.apply(P.LT, var, place), blocks.pop(), result),)
        return list(result)

    # ---- loops -------------------------------------------------------------------------------

    def _loop(self, stmt: For) -> Iterator[Stmt]:
        region = self.region
        start, stop = region.expr(stmt.start), region.expr(stmt.stop)
        places = list[Expr]()
        if self.budget > 1 and stmt.kind is LoopKind.SERIAL:
            crossed = self._chosen(stmt.counter, stmt.counter, start, stop, stmt.step, stmt.body)
            places = [
                place
                for place in places_of(crossed)
                if not region.facts.at_least_zero(build.sub(start, place))
                and not region.facts.at_least_zero(build.sub(place, stop))
            ]
        if not places:
            yield self._range(stmt, region.inner(), stmt.counter, start, stop, self.budget)
            return
        yield from self._regions(stmt, start, stop, places)

    def _regions(
        self, stmt: For, start: Expr, stop: Expr, places: Sequence[Expr]
    ) -> Iterator[Stmt]:
        """The loops over the ranges between places."""
        ends = [start]
        for place in places:
            end = on_grid(place, start, stop, stmt.step)
            if end is None:  # not a constant: computed where it is used
                value = clamped(place, ends[-1], start, stop, stmt.step)
                low, high = build.bounds(stmt.start)[0], build.bounds(stmt.stop)[1]
                name = self.region.names.fresh("seam")
                by = gcd(build.multiple(start), build.multiple(stop), stmt.step)
                end = Var(name, build.INDEX, 1, low, high, max(1, by))
                yield Let(end, value)
            ends.append(end)
        ends.append(stop)
        limits = list(ranges(places))
        budget = max(1, self.budget // (len(places) + 1))
        written = 0
        for number, (least, most) in enumerate(limits):
            first, last = ends[number], ends[number + 1]
            times = count(first, last, stmt.step)
            if times == 0:
                continue
            near = narrowed(stmt.counter, least, most)
            inner = self.region.inner(renames=written > 0)
            written += 1
            if times == 1:
                inner.values[stmt.counter.name] = first
                yield from _Partition(inner, budget, self.known).block(stmt.body)
                continue
            near = inside(near, first, last, stmt.step)
            yield self._range(stmt, inner, near, first, last, budget, (least, most), stop)

    def _range(
        self,
        stmt: For,
        region: LoopRegion,
        near: Var,
        first: Expr,
        last: Expr,
        budget: int,
        limits: tuple[Expr | None, Expr | None] = (None, None),
        stop: Expr | None = None,
    ) -> For:
        """The loop over a range. Its last iteration starts a whole step before the loop's end, if
        both are multiples of the step.
        """
        counter = region.bind(stmt.counter, near)
        assert isinstance(counter, Var)
        end = last if stop is None else stop
        whole = all(build.multiple(bound) % stmt.step == 0 for bound in (stmt.start, end))
        facts = facts_of(counter, *limits)
        if not isinstance(end, Const):
            facts.append(build.sub(build.sub(dividend(end), counter), stmt.step if whole else 1))
        if not isinstance(first, Const) and limits[0] is None:
            facts.append(build.sub(counter, first))
        inner = region.inner(*facts)
        body = tuple(_Partition(inner, budget, self.known).block(stmt.body))
        return replace(stmt, counter=counter, start=first, stop=last, body=body)

    # ---- choice of seams -------------------------------------------------------------------------

    def _chosen(
        self, old: Var, var: Var, start: Expr, stop: Expr, step: int, body: Sequence[Stmt]
    ) -> list[Seam]:
        """The seams at which a loop is split, such that its nest has few enough regions and
        expressions.
        """
        if self.budget < 2 or not self._meets(body):
            return []
        region = self.region.scratch()
        region.values[old.name] = var
        crossed = seams(var, start, stop, step, body, region)
        if not crossed:
            return []
        budget = min(self.budget, CODE // max(1, weight(body)))
        if budget > ROWS and any(self._crossed(loop, region) for loop in counters(body)):
            budget //= ROWS
        for number in range(min(len(crossed), budget), 0, -1):
            chosen = few(crossed, number)
            ends = [on_grid(place, start, stop, step) or place for place in places_of(chosen)]
            if len({start, *ends, stop}) <= budget + 1:
                return chosen
        return []

    def _meets(self, body: Sequence[Stmt]) -> bool:
        """Whether a block has seams of any loop."""
        if id(body) not in self.known:
            self.known[id(body)] = has_seams(body)
        return self.known[id(body)]

    def _crossed(self, loop: For, region: LoopRegion) -> bool:
        """Whether a nested loop has seams of its own."""
        inner = region.scratch()
        start, stop = inner.expr(loop.start), inner.expr(loop.stop)
        if seams(loop.counter, start, stop, loop.step, loop.body, inner):
            return True
        return any(self._crossed(each, inner) for each in counters(loop.body))
