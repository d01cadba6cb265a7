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
    """One loop nest. `loops` are the axes that each loop covers, outermost first. A thread has
    `copies` vectors of `lanes` elements along the innermost loop, which are a block apart. A kernel
    has blocks of as many `threads` as its nests have at most.

    With a `tile`, a block of `threads` transposes a square of as many elements a side as a warp has
    in vectors of `lanes`; the nest has a kernel of its own, and no `copies` but one.
    """

    loops: tuple[tuple[int, ...], ...]
    lanes: Positive
    copies: Positive
    threads: Positive
    tile: TransposedTile | None


@dataclass(frozen=True, slots=True)
class GpuElementwiseSchedule(Schedule):
    """A nest for each shape of the outputs, and for each piece of an output that is a
    concatenation; one kernel has at most `nests_per_kernel` of them, each with blocks of its own.
    """

    template: ClassVar[str] = "gpu_elementwise"
    nests_per_kernel: Positive
    nests: tuple[GpuNest, ...]
