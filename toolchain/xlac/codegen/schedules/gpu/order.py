"""Schedules of cumulative operations and sorts on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Positive, Schedule


@dataclass(frozen=True, slots=True)
class GpuLineScanSchedule(Schedule):
    """Cumulative operations, each line by one thread; blocks have `threads`."""

    template: ClassVar[str] = "gpu_line_scan"
    threads: Positive


@dataclass(frozen=True, slots=True)
class GpuBlockScanSchedule(Schedule):
    """Cumulative operations of lines that blocks share: each of a block's `threads` has `each`
    consecutive elements. If a line has more than one block, an earlier kernel combines the elements
    of each.
    """

    template: ClassVar[str] = "gpu_block_scan"
    each: Positive
    threads: Positive


@dataclass(frozen=True, slots=True)
class GpuCompactSchedule(Schedule):
    """Positions of true elements, by a running count: each of a block's `threads` has `each`
    consecutive elements.
    """

    template: ClassVar[str] = "gpu_compact"
    each: Positive
    threads: Positive


@dataclass(frozen=True, slots=True)
class GpuMergeSortSchedule(Schedule):
    """Blocks of `threads` sort `tile` elements each of `strings` lines in SHARED memory. Further
    kernels merge sorted runs in pairs, with blocks of `merge_threads`.
    """

    template: ClassVar[str] = "gpu_merge_sort"
    tile: Positive
    strings: Positive
    threads: Positive
    merge_threads: Positive


GPU_SCANS = (GpuLineScanSchedule, GpuBlockScanSchedule)
GPU_ORDER = (*GPU_SCANS, GpuCompactSchedule, GpuMergeSortSchedule)
