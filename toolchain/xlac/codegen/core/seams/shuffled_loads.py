"""Replaces gathers from a small range by loads of a few consecutive vectors and shuffles: for every
second element, each element twice, rows of three.
"""

from __future__ import annotations

from itertools import pairwise

from xlac.codegen.core.seams.conditions import Knowledge, Truths
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Apply, Expr, Load, Ramp, Shuffle, Space, Stmt
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.rewrite import KernelRewriter

VECTORS = 4  # loads up to which loading and shuffling costs less than a gather


def shuffled(body: tuple[Stmt, ...], known: Knowledge) -> tuple[Stmt, ...]:
    """The block with consecutive loads; the same statements where there are none of these
    gathers.
    """

    changed = False

    def visit(one: Expr) -> Expr:
        nonlocal changed
        new = one
        match one:
            case Load():
                new = _shuffled(one, known)
            case Apply(Primitive.SELECT, (condition, then, otherwise)) if one.lanes > 1:
                new = _woven(one, known.truths(condition), then, otherwise)
        changed |= new is not one
        return new

    rewritten = KernelRewriter(visit).block(body)
    return rewritten if changed else body


def _woven(select: Expr, truths: Truths | None, then: Expr, otherwise: Expr) -> Expr:
    """The lanes that a select takes from each of its sides, where these are the same every time. A
    select with a single seam is kept, as compilers know its condition as a number too.
    """
    if truths is None or sum(a is not b for a, b in pairwise(truths)) < 2:
        return select
    lanes = len(truths)
    picks = (lane if truth else lanes + lane for lane, truth in enumerate(truths))
    return Shuffle((then, otherwise), tuple(picks))


def _shuffled(load: Load, known: Knowledge) -> Expr:
    buffer, index, lanes = load.buffer, load.index, load.lanes
    if index.lanes == 1 or load.mask is not None or buffer.access is not Access.READ:
        return load
    if buffer.space is not Space.GLOBAL or (isinstance(index, Ramp) and abs(index.stride) == 1):
        return load
    form = known.form(index)
    if form is None or len(set(form.offsets)) == 1:
        return load
    least, most = min(form.offsets), max(form.offsets)
    span = most - least + 1
    wide = min(lanes, 1 << (span.bit_length() - 1))
    # the last vector begins earlier, so that nothing beyond the last element is read
    starts = [min(start, span - wide) for start in range(0, span, wide)]
    if len(starts) > min(VECTORS, lanes // 2):
        return load
    parts: list[Expr] = [
        Load(buffer, build.add(form.base, least + start), wide) for start in starts
    ]
    return _picked(parts, starts, [offset - least for offset in form.offsets])


def _picked(parts: list[Expr], starts: list[int], places: list[int]) -> Expr:
    """The elements at some places of vectors that begin at `starts`."""
    wide = parts[0].lanes
    if len(parts) == 1:
        return Shuffle((parts[0],), tuple(places))
    if len(parts) == 2:
        second = starts[1]
        picks = tuple(place if place < wide else wide + place - second for place in places)
        return Shuffle((parts[0], parts[1]), picks)
    # halves first: lanes that do not belong to a half may be any element
    end = starts[1] + wide
    low = _picked(parts[:2], starts[:2], [min(place, end - 1) for place in places])
    begin = starts[2]
    high = _picked(
        parts[2:],
        [start - begin for start in starts[2:]],
        [max(place - begin, 0) for place in places],
    )
    lanes = len(places)
    return Shuffle(
        (low, high), tuple(n if place < end else lanes + n for n, place in enumerate(places))
    )
