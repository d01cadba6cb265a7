"""Schedules of what runs along lines of a tensor on a CPU: sorts and cumulative operations."""

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
    """Short lines, each by one thread: the position of an element is the number of those that
    precede it, counted for `lanes` elements at once.
    """

    template: ClassVar[str] = "rank_sort"
    threads: Threads
    lanes: Positive


@dataclass(frozen=True, slots=True)
class SelectionSchedule(Schedule):
    """The first k elements of lines, each line by one thread. The minima of `groups` interleaved
    parts of a line give a bound; elements within it are collected, comparing `lanes` at once, with
    one branch for `unroll` vectors.
    """

    template: ClassVar[str] = "selection"
    threads: Threads
    lanes: Positive
    unroll: Positive
    groups: Positive


@dataclass(frozen=True, slots=True)
class CumulativeSchedule(Schedule):
    """Cumulative operations. Vectors of `lanes` adjacent lines, each processed from its first
    element to its last; `threads` share the axes before, and pieces of `piece` vectors of lines.
    """

    template: ClassVar[str] = "cumulative"
    lanes: Positive
    piece: Positive
    threads: Threads


SORTS = (MergeSortSchedule, RankSortSchedule, SelectionSchedule)
