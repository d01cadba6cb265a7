"""Ranges of a loop's counter between seams, and what is known of the counter in each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import gcd

from xlac.codegen.core.seams.breakpoints import Seam
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Apply, Const, Expr, Var
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive


def places_of(seams: Sequence[Seam]) -> list[Expr]:
    """The boundaries of ranges, in order."""
    places = list[Expr]()
    for seam in seams:
        for place in (seam.first, seam.last):
            if place not in places[-1:]:
                places.append(place)
    return places


def ranges(places: Sequence[Expr]) -> Iterator[tuple[Expr | None, Expr | None]]:
    """The ranges between boundaries: the first index of each, and the first beyond it."""
    return zip([None, *places], [*places, None], strict=True)


def narrowed(var: Var, least: Expr | None, most: Expr | None) -> Var:
    """A variable with the bounds of a half-open range, where these are numbers."""
    if isinstance(least, Const):
        low = int(least.value)
        var = replace(var, low=low if var.low is None else max(var.low, low))
    if isinstance(most, Const):
        high = int(most.value) - 1
        var = replace(var, high=high if var.high is None else min(var.high, high))
    return var


def facts_of(var: Var, least: Expr | None, most: Expr | None) -> list[Expr]:
    """Indices that are nonnegative inside a half-open range, where its bounds are not numbers."""
    facts = list[Expr]()
    if least is not None and not isinstance(least, Const):
        facts.append(build.sub(var, least))
    if most is not None and not isinstance(most, Const):
        facts.append(build.sub(build.sub(most, 1), var))
    return facts


def dividend(end: Expr) -> Expr:
    """An upper bound of an index, without quotients that are multiplied by their divisors."""
    bound: Expr = build.index(0)
    for term, factor in build.terms(end).items():
        match term:
            case Apply(Primitive.DIV, (whole, Const(value=k))) if factor > 0 == factor % int(k):
                bound = build.add(bound, build.mul(whole, factor // int(k)))
            case _:
                bound = build.add(bound, build.mul(term, factor))
    return bound


def inside(var: Var, first: Expr, last: Expr, step: int) -> Var:
    """A counter with the bounds of its range."""
    low, high = build.bounds(first)[0], build.bounds(last)[1]
    if isinstance(first, Const) and isinstance(last, Const):
        high = int(first.value) + (count(first, last, step) or 1) * step - step + 1
    lows = [end for end in (low, var.low) if end is not None]
    highs = [end for end in (None if high is None else high - 1, var.high) if end is not None]
    known = gcd(build.multiple(first), step)
    multiple = known if known % var.multiple == 0 else var.multiple
    low, high = max(lows, default=None), min(highs, default=None)
    below = None if isinstance(last, Const) else last
    return replace(var, low=low, high=high, multiple=multiple, below=below)


def count(first: Expr, last: Expr, step: int) -> int | None:
    """The number of iterations of a range, if known."""
    if isinstance(first, Const) and isinstance(last, Const):
        return max(0, -(-(int(last.value) - int(first.value)) // step))
    return None


def on_grid(place: Expr, start: Expr, stop: Expr, step: int) -> Expr | None:
    """The first counter value at or after a place, if it is a number."""
    if not (isinstance(place, Const) and isinstance(start, Const) and isinstance(stop, Const)):
        return None
    first, last = int(start.value), int(stop.value)
    return build.index(
        min(max(first, last), first + -(-max(0, int(place.value) - first) // step) * step)
    )


def clamped(place: Expr, before: Expr, start: Expr, stop: Expr, step: int) -> Expr:
    """The first counter value at or after a place, clamped to the end of the range before it and
    the end of the loop.
    """
    ahead = build.sub(place, start)
    low = build.bounds(ahead)[0]
    if low is None or low < 0:
        ahead = build.apply(P.MAX, ahead, build.index(0))
    if step > 1:
        ahead = build.add(ahead, step - 1)
        ahead = build.mul(build.div(ahead, step), step)
    end = build.apply(P.MIN, build.add(start, ahead), stop)
    return (
        build.apply(P.MAX, end, before) if before is not start else build.apply(P.MAX, end, start)
    )
