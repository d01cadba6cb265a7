"""Schedules of convolutions by Winograd's method on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from xlac.codegen.core.contraction.tiling import RegisterTile
from xlac.codegen.schedules.schedule import Positive, Schedule, Threads


@dataclass(frozen=True, slots=True)
class WinogradSchedule(Schedule):
    """A convolution of 3 by 3 taps by fewer products: tiles of `results` by `results` pixels. A first
    kernel transforms what every tile sees; `input_threads` share its loops over batches, rows and
    columns of tiles. A second one multiplies, in register tiles of transformed tiles by channels of
    the result; a block of `block` of them goes over `chunk` channels at a time, whose weights are
    transformed before. `threads` share blocks and panels of channels, as one loop.

    `unroll` and `hold` are as in `gemm`. With `epilogue_loop`, what follows is a loop
    over the pixels of a tile, not written out for each.
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
