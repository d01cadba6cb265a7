"""Schedules of sorts on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Positive, Schedule, Threads


@dataclass(frozen=True, slots=True)
class MergeSortSchedule(Schedule):
    """Lines of elements, each sorted by one thread: `threads` share the loops over them."""

    template: ClassVar[str] = "merge_sort"
    threads: Threads


@dataclass(frozen=True, slots=True)
class RankSortSchedule(Schedule):
    """Short lines, each by one thread: the place of an element is how many go before it, counted
    for `lanes` elements at once.
    """

    template: ClassVar[str] = "rank_sort"
    threads: Threads
    lanes: Positive


@dataclass(frozen=True, slots=True)
class SelectionSchedule(Schedule):
    """The first elements of lines, each by one thread: the least of each of `groups` interleaved
    parts of a line bound those that are looked at, by `lanes` at once and `unroll` vectors for a
    branch.
    """

    template: ClassVar[str] = "selection"
    threads: Threads
    lanes: Positive
    unroll: Positive
    groups: Positive


SORTS = (MergeSortSchedule, RankSortSchedule, SelectionSchedule)
