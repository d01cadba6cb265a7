"""Finds the counter values at which comparisons in a loop's body change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xlac.codegen.core.seams.folding import LoopRegion
from xlac.codegen.core.seams.lane_forms import Facts, LaneForm
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import (
    Allocate,
    Apply,
    Const,
    Expr,
    For,
    If,
    Let,
    Load,
    Stmt,
    Store,
    Var,
    children,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.sharing import operands, roots, walk

P = Primitive


@dataclass(frozen=True, slots=True)
class Seam:
    """A comparison that changes for its first lane where a counter reaches `first`, and for its
    last lane where it reaches `last`.
    """

    first: Expr
    last: Expr


def seams(
    counter: Var, start: Expr, stop: Expr, step: int, body: Sequence[Stmt], region: LoopRegion
) -> list[Seam]:
    """The seams inside a loop in the order of the counter; seams within one step of each other are
    merged. Those whose order is not known are omitted.
    """
    scan = _SeamScan(counter, region.scratch())
    scan.block(body)
    ordered = list[Seam]()
    for seam in scan.seams:
        _insert(ordered, seam, start, stop, region.facts)
    return _clustered(ordered, step, region.facts)


class _SeamScan:
    """Finds the comparisons that decide which elements are loaded: conditions of selects of loaded
    values, and clamps of addresses.
    """

    def __init__(self, counter: Var, region: LoopRegion) -> None:
        self.counter, self.region = counter, region
        self.region.values[counter.name] = counter
        self.seams: list[Seam] = []
        self._seen: set[tuple[Expr, Expr]] = set()
        self._inside: set[str] = set()  # names defined in the loop
        self._loaded: set[str] = set()  # names of values computed from loaded values

    def block(self, body: Sequence[Stmt]) -> None:
        for stmt in body:
            self._stmt(stmt)

    def _stmt(self, stmt: Stmt) -> None:
        region = self.region
        match stmt:
            case Let(var=var):
                new = region.let(stmt)
                if new is not None:
                    self._inside.add(new.var.name)
                    if self._exprs([new.value]):
                        self._loaded.add(new.var.name)
                elif self._exprs([region.values[var.name]]):
                    self._loaded.add(var.name)
                return
            case For(counter=counter):
                region.values[counter.name] = counter
                self._inside.add(counter.name)
            case Store(value=value, index=index):
                self._exprs([region.expr(index), region.expr(value)])
                return
            case Allocate():
                return
        self._exprs([region.expr(root) for root in roots(stmt)])
        for inner in children(stmt):
            self.block(inner)

    def _exprs(self, exprs: Sequence[Expr]) -> bool:
        """Scans expressions; returns whether they are computed from loaded values."""
        loaded: dict[int, bool] = {}
        for one in walk(exprs):
            inner = [loaded[id(part)] for part in operands(one)]
            match one:
                case Load(index=index):
                    loaded[id(one)] = True
                    self._clamps(index)
                    continue
                case Var(name=name):
                    loaded[id(one)] = name in self._loaded
                    continue
                case Apply(Primitive.SELECT, (condition, _, _)) if any(inner[1:]):
                    for a, b in self.region.knowledge.comparisons(condition):
                        self._compared(a, b)
            loaded[id(one)] = any(inner)
        return any(loaded[id(expr)] for expr in exprs)

    def _clamps(self, index: Expr) -> None:
        for one in walk([index]):
            match one:
                case Apply(Primitive.MIN | Primitive.MAX as primitive, (a, b)):
                    x, y = self.region.knowledge.form(a), self.region.knowledge.form(b)
                    if x is not None and y is not None:
                        moving = self.counter in build.terms(x.base)
                        # exactly at the bound a clamp has no effect
                        self._compared(*((y, x) if moving == (primitive is P.MIN) else (x, y)))

    def _compared(self, a: LaneForm, b: LaneForm) -> None:
        """Records where `a < b` changes."""
        if self.region.facts.below(a, b) is not None:
            return
        gap = b.minus(a)
        slope, rest = 0, build.Terms()
        for term, factor in build.terms(gap.base).items():
            if term == self.counter:
                slope = factor
            elif any(not self._before(part) for part in build.factors(term)):
                return
            else:
                rest[term] = factor
        if slope:
            seam = _seam(slope, build.total(rest), min(gap.offsets), max(gap.offsets))
            if seam is not None and (seam.first, seam.last) not in self._seen:
                self._seen.add((seam.first, seam.last))
                self.seams.append(seam)

    def _before(self, part: Expr) -> bool:
        """Whether a factor is known before the loop."""
        return all(
            not isinstance(one, Load)
            and not (isinstance(one, Var) and (one == self.counter or one.name in self._inside))
            for one in walk([part])
        )


def _seam(slope: int, rest: Expr, least: int, most: int) -> Seam | None:
    """The seam of `slope * counter + rest + offset > 0` for offsets from `least` to `most`."""
    if isinstance(rest, Const):
        r, m = int(rest.value), abs(slope)
        if slope > 0:
            return Seam(build.index(-(r + most) // m + 1), build.index(-((r + least - 1) // m)))
        return Seam(build.index((r + least - 1) // m + 1), build.index(-(-(r + most) // m)))
    if slope == 1:
        return Seam(build.sub(build.index(1 - most), rest), build.sub(build.index(1 - least), rest))
    if slope == -1:
        return Seam(build.add(rest, least), build.add(rest, most))
    return None


def _insert(ordered: list[Seam], seam: Seam, start: Expr, stop: Expr, facts: Facts) -> None:
    """Inserts a seam in order, if its position is known and inside the loop."""

    def known(a: Expr, b: Expr) -> bool:
        """Whether a <= b is known."""
        return facts.at_least_zero(build.sub(b, a))

    if known(seam.last, start) or known(stop, seam.first):
        return
    place = len(ordered)
    while place and not known(ordered[place - 1].first, seam.first):
        place -= 1
    if place < len(ordered) and not known(seam.first, ordered[place].first):
        return
    ordered.insert(place, seam)


def _clustered(ordered: Sequence[Seam], step: int, facts: Facts) -> list[Seam]:
    """Merges seams that one iteration may cross together."""
    clusters = list[Seam]()
    for seam in ordered:
        if clusters and facts.at_least_zero(
            build.sub(build.add(clusters[-1].last, step - 1), seam.first)
        ):
            last = _later(clusters[-1].last, seam.last, facts)
            if last is not None:
                clusters[-1] = Seam(clusters[-1].first, last)
            continue
        if clusters and not facts.at_least_zero(build.sub(seam.first, clusters[-1].last)):
            continue
        clusters.append(seam)
    return clusters


def _later(a: Expr, b: Expr, facts: Facts) -> Expr | None:
    """The greater of two indices, if it is known which."""
    if facts.at_least_zero(build.sub(b, a)):
        return b
    return a if facts.at_least_zero(build.sub(a, b)) else None


def few(seams: Sequence[Seam], most: int) -> list[Seam]:
    """At most `most` of the seams, evenly spaced."""
    if len(seams) <= most:
        return list(seams)
    return [seams[(2 * n + 1) * len(seams) // (2 * most)] for n in range(most)] if most > 0 else []


def counters(body: Sequence[Stmt]) -> Iterator[For]:
    """The loops directly inside a block, looking through conditions."""
    for stmt in body:
        if isinstance(stmt, For):
            yield stmt
        elif isinstance(stmt, If):
            for inner in children(stmt):
                yield from counters(inner)
