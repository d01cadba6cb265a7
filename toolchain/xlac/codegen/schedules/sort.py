"""Schedules of sorts on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Schedule, Threads


@dataclass(frozen=True, slots=True)
class MergeSortSchedule(Schedule):
    """Lines of elements, each sorted by one thread: `threads` share the loops over them."""

    template: ClassVar[str] = "merge_sort"
    threads: Threads
