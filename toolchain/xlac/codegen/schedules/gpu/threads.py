"""Schedules of GPU kernels whose threads have one result each, or a few adjacent ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Positive, Schedule


@dataclass(frozen=True, slots=True)
class GpuWindowSchedule(Schedule):
    """Windowed reductions such as pooling: a thread has `lanes` adjacent results, a block
    `threads`. If `written_out`, the positions of the window are unrolled, except along axes in
    which it extends beyond an edge; otherwise they are loops.
    """

    template: ClassVar[str] = "gpu_window"
    lanes: Positive
    written_out: bool
    threads: Positive


@dataclass(frozen=True, slots=True)
class GpuDepthwiseSchedule(Schedule):
    """Channels-last depthwise convolutions: a thread has `lanes` adjacent channels of a pixel, a
    block `threads`.
    """

    template: ClassVar[str] = "gpu_depthwise"
    lanes: Positive
    threads: Positive


@dataclass(frozen=True, slots=True)
class GpuUpdateSchedule(Schedule):
    """dynamic_update_slice: a thread copies `lanes` adjacent elements, a block has `threads`."""

    template: ClassVar[str] = "gpu_update"
    lanes: Positive
    threads: Positive


@dataclass(frozen=True, slots=True)
class GpuRandomSchedule(Schedule):
    """Random bits: a thread computes one cipher block; a block of the kernel has `threads`."""

    template: ClassVar[str] = "gpu_random"
    threads: Positive


@dataclass(frozen=True, slots=True)
class GpuScatterSchedule(Schedule):
    """Updates whose order does not matter: one for each thread; a block has `threads`."""

    template: ClassVar[str] = "gpu_scatter"
    threads: Positive


@dataclass(frozen=True, slots=True)
class GpuSortedScatterSchedule(Schedule):
    """Updates that an earlier kernel has sorted by position: a thread combines one element of those
    of a position; blocks have `threads`.
    """

    template: ClassVar[str] = "gpu_sorted_scatter"
    threads: Positive


GPU_BY_THREAD = (
    GpuWindowSchedule,
    GpuDepthwiseSchedule,
    GpuUpdateSchedule,
    GpuRandomSchedule,
    GpuScatterSchedule,
    GpuSortedScatterSchedule,
)
