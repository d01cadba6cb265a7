"""Sorting on a CPU: chooses one of three algorithms."""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt

from xlac.codegen.core.elements import Elements
from xlac.codegen.core.loop_nest import check_threads, share
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.core.strip_mining import check_vectors
from xlac.codegen.cpu.sort.lines import Lines
from xlac.codegen.cpu.sort.merge_sort import merge_sort
from xlac.codegen.cpu.sort.order_keys import has_order_key, key_dtype
from xlac.codegen.cpu.sort.rank_sort import rank_sort
from xlac.codegen.cpu.sort.selection import select_first
from xlac.codegen.schedules.schedule import Misfit
from xlac.codegen.schedules.sort import (
    SORTS,
    MergeSortSchedule,
    RankSortSchedule,
    SelectionSchedule,
)
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import size_hint
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.target import Target

SortSchedule = MergeSortSchedule | RankSortSchedule | SelectionSchedule

STEP = 12  # operations to move one element in one merge
RANKED = 128  # vectors of a line up to which all elements are compared with each other
COMPARED = 128  # elements of a line up to which all are compared, whatever number is selected
GROUPS = 4  # columns per selected element
FEWEST = 8  # the fewest vectors of columns
LOOK = 2  # operations to examine an element


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """One launch."""
    lines = Lines(Elements(Builder(), group, target))

    def check(schedule: SortSchedule) -> None:
        _check(schedule, lines, target)

    schedule: SortSchedule = lower_part.decisions.settle(
        name, _choose(lines, target), check, SORTS, lambda: _every_template(lines, target)
    )
    match schedule:
        case MergeSortSchedule():
            merge_sort(lines, schedule)
        case RankSortSchedule():
            rank_sort(lines, schedule)
        case SelectionSchedule():
            select_first(lines, schedule)
    return LoweredGroup((lines.elements.launch(name, cost.work(group)),))


def _choose(lines: Lines, target: Target) -> SortSchedule:
    """Ranks for short lines, selection of up to three quarters of a line, otherwise a merge
    sort.
    """
    usual, kept, lanes = size_hint(lines.count), size_hint(lines.kept), _lanes(lines, target)
    keyed = has_order_key(lines.op) and usual > 1
    short = min(RANKED * lanes, target.l1_bytes // 16)
    if keyed and isinstance(lines.count, int) and lanes > 1 and _few(usual, kept, short):
        return _ranked(lines, target)
    if keyed and isinstance(lines.kept, int) and 0 < 4 * kept <= 3 * usual:
        return _selected(lines, target)
    return _merged(lines, target)


def _every_template(lines: Lines, target: Target) -> Iterator[SortSchedule]:
    """A schedule of each template for a sort of several elements, also of those that it cannot
    have.
    """
    if has_order_key(lines.op) and size_hint(lines.count) > 1:
        yield _ranked(lines, target)
        yield _selected(lines, target)
    yield _merged(lines, target)


def _ranked(lines: Lines, target: Target) -> RankSortSchedule:
    usual, lanes = size_hint(lines.count), _lanes(lines, target)
    return RankSortSchedule(share(target, lines.loops, LOOK * usual * usual // lanes), lanes)


def _selected(lines: Lines, target: Target) -> SelectionSchedule:
    usual, kept, lanes = size_hint(lines.count), size_hint(lines.kept), _lanes(lines, target)
    groups = _prime(_up(max(FEWEST * lanes, GROUPS * kept), lanes))
    if groups * 2 > usual:  # columns of one element each
        groups = _up(usual, lanes)
    threads = share(target, lines.loops, LOOK * usual + STEP * kept * _levels(usual))
    return SelectionSchedule(threads, lanes, 4 if lanes > 1 else 1, groups)


def _merged(lines: Lines, target: Target) -> MergeSortSchedule:
    usual = size_hint(lines.count)
    return MergeSortSchedule(share(target, lines.loops, STEP * usual * (_levels(usual) + 1)))


def _levels(usual: int) -> int:
    return max(1, usual - 1).bit_length() if usual > 1 else 0


def _lanes(lines: Lines, target: Target) -> int:
    return target.lanes(key_dtype(lines.dtypes[0])) if target.vector_bytes else 1


def _few(usual: int, kept: int, short: int) -> bool:
    """Whether comparing all elements of a line is faster than selecting the first."""
    return usual <= short and (4 * kept > 3 * usual or usual <= COMPARED)


def _up(value: int, lanes: int) -> int:
    return -(-value // lanes) * lanes


def _prime(most: int) -> int:
    """The greatest prime up to a number, so that periodic patterns along a line do not fall into
    one column.
    """
    return next(n for n in range(most, 1, -1) if all(n % d for d in range(2, isqrt(n) + 1)))


def _check(schedule: SortSchedule, lines: Lines, target: Target) -> None:
    """Raises Misfit for a schedule that the sort cannot have."""
    check_threads(schedule.threads, len(lines.loops))
    if isinstance(schedule, MergeSortSchedule):
        return
    if not has_order_key(lines.op):
        raise Misfit(("template",), "it sorts by one key, without a body")
    check_vectors(schedule.lanes, 1, False, target)
    if isinstance(schedule, RankSortSchedule):
        if not isinstance(lines.count, int):
            raise Misfit(("template",), "lines must have a known length")
        if 8 * (lines.count + schedule.lanes) > target.l1_bytes:
            raise Misfit(("template",), "the keys of a line do not fit the first cache")
        return
    check_vectors(schedule.lanes, schedule.unroll, False, target)
    if not isinstance(lines.kept, int) or not lines.kept:
        raise Misfit(("template",), "it needs to know how many elements are selected")
    if schedule.groups < lines.kept:
        raise Misfit(("groups",), f"it must be at least {lines.kept}, as many as are selected")
    if schedule.groups < schedule.lanes:
        raise Misfit(("groups",), f"it must be at least {schedule.lanes}, a vector of them")
