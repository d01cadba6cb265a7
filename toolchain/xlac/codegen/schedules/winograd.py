"""Schedules of convolutions by Winograd's method on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from xlac.codegen.core.contraction.tiling import RegisterTile
from xlac.codegen.schedules.schedule import Positive, Schedule, Threads


@dataclass(frozen=True, slots=True)
class WinogradSchedule(Schedule):
    """A 3x3 convolution by Winograd's algorithm: tiles of `results` by `results` pixels. A first
    kernel transforms the input tiles; `input_threads` share its loops over batches, rows and
    columns of tiles. A second one multiplies, in register tiles of transformed tiles by channels of
    the result; a block of `block` of them iterates over `chunk` channels at a time, whose weights
    are transformed first. `threads` share blocks and panels of channels, as one loop.

    `unroll` and `hold` are as in `gemm`. With `epilogue_loop`, the epilogue is a loop over the
    pixels of a tile instead of unrolled.
    """

    template: ClassVar[str] = "winograd"
    results: Positive
    input_threads: Threads
    tile: RegisterTile
    block: Positive
    chunk: Positive
    unroll: tuple[Positive, Positive]
    hold: Literal["right", "fewer"]
    threads: Threads
    epilogue_loop: bool
