"""Partitions loops at their seams: a kernel of several loops, in each of which fewer comparisons
are open.

A loop over a counter becomes loops over ranges of it; what is a name for an index, or the counter
of a PARALLEL loop, is told apart by conditions. Iterations keep their order and their vectors, so
that results are the same to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd

from xlac.codegen.core.seams.breakpoints import Seam, counters, few, seams
from xlac.codegen.core.seams.dead import without_unused
from xlac.codegen.core.seams.folding import Names, Region
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import (
    Allocate,
    Apply,
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
from xlac_sdk.kernel_ir.primitives import TRANSCENDENTAL, Primitive
from xlac_sdk.kernel_ir.sharing import roots, walk

P = Primitive

CODE = 8192  # expressions of a loop nest after it is partitioned, which bounds compile time
HEAVY = 16  # expressions that a transcendental function counts as
ROWS = 3  # regions of a loop around another that has seams too, where both do not fit


def partitioned(kernel: Kernel, regions: int) -> Kernel:
    """The kernel with at most so many regions in a nest of loops; the same object if nothing is
    decided in them.
    """
    if any(isinstance(stmt, Barrier | Await | Instruction) for stmt in statements(kernel.body)):
        return kernel
    found = Names(names(kernel))
    whole = Region(found, values={size.name: size for size in kernel.sizes})
    body = tuple(_Partition(whole, regions).block(kernel.body))
    return replace(kernel, body=without_unused(body)) if found.decided else kernel


@dataclass(slots=True)
class _Partition:
    """Writes a block of a region, with at most so many regions inside."""

    region: Region
    budget: int

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
        """Whether a name is an index of its own, which conditions may tell apart."""
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
            yield from _Partition(self.region, self.budget).block(chosen)
            return
        blocks = [
            tuple(_Partition(self.region.inner(), self.budget).block(block))
            for block in (stmt.then, stmt.otherwise)
        ]
        yield If(condition, blocks[0], blocks[1])

    # ---- conditions --------------------------------------------------------------------------

    def _parallel(self, stmt: For) -> For:
        region = self.region.inner()
        start, stop = self.region.expr(stmt.start), self.region.expr(stmt.stop)
        counter = region.bind(stmt.counter, stmt.counter)
        assert isinstance(counter, Var)
        inner = _Partition(region, self.budget)
        cases = inner._cases(stmt.counter, counter, stmt.body, stop)
        body = tuple(inner.block(stmt.body) if cases is None else cases)
        return replace(stmt, counter=counter, start=start, stop=stop, body=body)

    def _cases(
        self, old: Var, var: Var, rest: Sequence[Stmt], stop: Expr | None = None
    ) -> list[Stmt] | None:
        """The rest of a block for each range of an index; None if it has no seams there."""
        if var.low is None or var.high is None:
            return None
        end = build.index(var.high + 1) if stop is None else stop
        found = self._chosen(old, var, build.index(var.low), end, 1, rest)
        if not found:
            return None
        places = _places(found)
        budget = max(1, self.budget // (len(places) + 1))
        blocks = list[tuple[Stmt, ...]]()
        for number, (least, most) in enumerate(_ranges(places)):
            near, facts = _narrowed(var, least, most)
            inner = self.region.inner(*facts, renames=number > 0)
            inner.values[old.name] = near
            blocks.append(tuple(_Partition(inner, budget).block(rest)))
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
            found = self._chosen(stmt.counter, stmt.counter, start, stop, stmt.step, stmt.body)
            places = _places(found)
        if not places:
            inner = region.inner()
            counter = inner.bind(stmt.counter, stmt.counter)
            assert isinstance(counter, Var)
            body = tuple(_Partition(inner, self.budget).block(stmt.body))
            yield replace(stmt, counter=counter, start=start, stop=stop, body=body)
            return
        yield from self._regions(stmt, start, stop, places)

    def _regions(
        self, stmt: For, start: Expr, stop: Expr, places: Sequence[Expr]
    ) -> Iterator[Stmt]:
        """The loops over the ranges between places."""
        ends = [start]
        for place in places:
            end = _on_grid(place, start, stop, stmt.step)
            if end is None:  # not a number: computed where it is needed
                value = _clamped(place, ends[-1], start, stop, stmt.step)
                low, high = build.bounds(stmt.start)[0], build.bounds(stmt.stop)[1]
                name = self.region.names.fresh("seam")
                by = gcd(build.multiple(start), build.multiple(stop), stmt.step)
                end = Var(name, build.INDEX, 1, low, high, max(1, by))
                yield Let(end, value)
            ends.append(end)
        ends.append(stop)
        limits = list(_ranges(places))
        budget = max(1, self.budget // (len(places) + 1))
        written = 0
        for number, (least, most) in enumerate(limits):
            first, last = ends[number], ends[number + 1]
            count = _count(first, last, stmt.step)
            if count == 0:
                continue
            near, facts = _narrowed(stmt.counter, least, most)
            inner = self.region.inner(*facts, renames=written > 0)
            written += 1
            if count == 1:
                inner.values[stmt.counter.name] = first
                yield from _Partition(inner, budget).block(stmt.body)
                continue
            near = _inside(near, first, last, stmt.step)
            counter = inner.bind(stmt.counter, near)
            assert isinstance(counter, Var)
            body = tuple(_Partition(inner, budget).block(stmt.body))
            yield replace(stmt, counter=counter, start=first, stop=last, body=body)

    # ---- which -------------------------------------------------------------------------------

    def _chosen(
        self, old: Var, var: Var, start: Expr, stop: Expr, step: int, body: Sequence[Stmt]
    ) -> list[Seam]:
        """The seams at which a loop is split, so that all its nest has few enough regions and
        expressions.
        """
        if self.budget < 2 or not _worth(body):
            return []
        region = self.region.scratch()
        region.values[old.name] = var
        found = seams(var, start, stop, step, body, region)
        if not found:
            return []
        budget = min(self.budget, CODE // max(1, _weight(body)))
        if budget > ROWS and any(self._crossed(loop, region) for loop in counters(body)):
            budget //= ROWS
        for count in range(min(len(found), budget), 0, -1):
            chosen = few(found, count)
            ends = [_on_grid(place, start, stop, step) or place for place in _places(chosen)]
            if len({start, *ends, stop}) <= budget + 1:
                return chosen
        return []

    def _crossed(self, loop: For, region: Region) -> bool:
        """Whether a loop inside has seams of its own."""
        inner = region.scratch()
        start, stop = inner.expr(loop.start), inner.expr(loop.stop)
        if seams(loop.counter, start, stop, loop.step, loop.body, inner):
            return True
        return any(self._crossed(each, inner) for each in counters(loop.body))


def _worth(body: Sequence[Stmt]) -> bool:
    """Whether anything in a block depends on comparisons or clamps."""
    return any(
        isinstance(one, Apply) and one.primitive in (P.SELECT, P.MIN, P.MAX)
        for stmt in statements(body)
        for one in walk(roots(stmt))
    )


def _weight(body: Sequence[Stmt]) -> int:
    """Expressions of a block, as far as they become code."""
    return sum(
        HEAVY if isinstance(one, Apply) and one.primitive in TRANSCENDENTAL else 1
        for stmt in statements(body)
        for one in walk(roots(stmt))
    )


def _places(found: Sequence[Seam]) -> list[Expr]:
    """The places where ranges end, in order."""
    places = list[Expr]()
    for seam in found:
        for place in (seam.first, seam.last):
            if place not in places[-1:]:
                places.append(place)
    return places


def _ranges(places: Sequence[Expr]) -> Iterator[tuple[Expr | None, Expr | None]]:
    """The ranges between places, as the least index of each and the first that is beyond."""
    return zip([None, *places], [*places, None], strict=True)


def _narrowed(var: Var, least: Expr | None, most: Expr | None) -> tuple[Var, list[Expr]]:
    """A variable that is at least one index and below another: with what numbers say as its
    bounds, and the rest as facts.
    """
    facts = list[Expr]()
    if isinstance(least, Const):
        low = int(least.value)
        var = replace(var, low=low if var.low is None else max(var.low, low))
    elif least is not None:
        facts.append(build.sub(var, least))
    if isinstance(most, Const):
        high = int(most.value) - 1
        var = replace(var, high=high if var.high is None else min(var.high, high))
    elif most is not None:
        facts.append(build.sub(build.sub(most, 1), var))
    return var, facts


def _inside(var: Var, first: Expr, last: Expr, step: int) -> Var:
    """A counter with the bounds of its range."""
    low, high = build.bounds(first)[0], build.bounds(last)[1]
    if isinstance(first, Const) and isinstance(last, Const):
        high = int(first.value) + (_count(first, last, step) or 1) * step - step + 1
    lows = [end for end in (low, var.low) if end is not None]
    highs = [end for end in (None if high is None else high - 1, var.high) if end is not None]
    known = gcd(build.multiple(first), step)
    multiple = known if known % var.multiple == 0 else var.multiple
    low, high = max(lows, default=None), min(highs, default=None)
    below = None if isinstance(last, Const) else last
    return replace(var, low=low, high=high, multiple=multiple, below=below)


def _count(first: Expr, last: Expr, step: int) -> int | None:
    """The number of iterations of a range, if known."""
    if isinstance(first, Const) and isinstance(last, Const):
        return max(0, -(-(int(last.value) - int(first.value)) // step))
    return None


def _on_grid(place: Expr, start: Expr, stop: Expr, step: int) -> Expr | None:
    """The first value of a counter that is not before a place, if it is a number."""
    if not (isinstance(place, Const) and isinstance(start, Const) and isinstance(stop, Const)):
        return None
    first, last = int(start.value), int(stop.value)
    return build.index(min(max(first, last), first + _up(max(0, int(place.value) - first), step)))


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _clamped(place: Expr, before: Expr, start: Expr, stop: Expr, step: int) -> Expr:
    """The first value of a counter that is not before a place, and neither before the end of the
    range before it nor beyond the loop.
    """
    ahead = build.apply(P.MAX, build.sub(place, start), build.index(0))
    if step > 1:
        ahead = build.add(ahead, step - 1)
        ahead = build.mul(Apply(P.DIV, (ahead, build.index(step)), build.INDEX), step)
    end = build.apply(P.MIN, build.add(start, ahead), stop)
    return (
        build.apply(P.MAX, end, before) if before is not start else build.apply(P.MAX, end, start)
    )
