"""Schedules of elementwise groups on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Natural, Part, Positive, Schedule


@dataclass(frozen=True, slots=True)
class TransposedTile(Part):
    """A square tile that a block reads along loop number `across`, along which some operands are
    contiguous, and writes along the innermost loop. Its rows are `pitch` elements apart in SHARED
    memory.
    """

    across: Natural
    pitch: Positive


@dataclass(frozen=True, slots=True)
class GpuNest(Part):
    """One loop nest. `loops` are the axes that each loop merges, outermost first. A thread has
    `copies` vectors of `lanes` elements along the innermost loop, which are a block apart. The
    block size of a kernel is the largest `threads` of its nests.

    With a `tile`, a block of `threads` transposes a square whose side is a warp's threads times
    `lanes`; the nest has its own kernel, and `copies` is 1.
    """

    loops: tuple[tuple[int, ...], ...]
    lanes: Positive
    copies: Positive
    threads: Positive
    tile: TransposedTile | None


@dataclass(frozen=True, slots=True)
class GpuElementwiseSchedule(Schedule):
    """A nest for each shape of the outputs, and for each piece of an output that is a
    concatenation; one kernel has at most `nests_per_kernel` of them, each with its own blocks.
    """

    template: ClassVar[str] = "gpu_elementwise"
    nests_per_kernel: Positive
    nests: tuple[GpuNest, ...]
