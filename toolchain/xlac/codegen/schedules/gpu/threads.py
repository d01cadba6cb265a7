"""Schedules of kernels for a GPU whose threads have a result each, or a few neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Positive, Schedule


@dataclass(frozen=True, slots=True)
class GpuWindowSchedule(Schedule):
    """Pooling and its like: a thread has `lanes` neighbouring results, a block `threads`.
    `written_out`, the positions of the window are statements, but for those of axes along which it
    hangs over an edge; else they are loops.
    """

    template: ClassVar[str] = "gpu_window"
    lanes: Positive
    written_out: bool
    threads: Positive


@dataclass(frozen=True, slots=True)
class GpuDepthwiseSchedule(Schedule):
    """Depthwise convolutions with the channels last: a thread has `lanes` neighbouring channels of
    a pixel, a block `threads`.
    """

    template: ClassVar[str] = "gpu_depthwise"
    lanes: Positive
    threads: Positive


@dataclass(frozen=True, slots=True)
class GpuUpdateSchedule(Schedule):
    """A slice that is replaced: a thread moves `lanes` neighbours, a block has `threads`."""

    template: ClassVar[str] = "gpu_update"
    lanes: Positive
    threads: Positive


@dataclass(frozen=True, slots=True)
class GpuRandomSchedule(Schedule):
    """Random bits: a thread has a block of the generator, a block of the kernel `threads`."""

    template: ClassVar[str] = "gpu_random"
    threads: Positive


@dataclass(frozen=True, slots=True)
class GpuScatterSchedule(Schedule):
    """Updates whose order does not matter: a thread has one, a block `threads`."""

    template: ClassVar[str] = "gpu_scatter"
    threads: Positive


@dataclass(frozen=True, slots=True)
class GpuSortedScatterSchedule(Schedule):
    """Updates that a kernel before has sorted by their place: of those of one place a thread
    combines an element each; blocks have `threads`.
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
