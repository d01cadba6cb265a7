"""Schedules of depthwise convolutions on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Positive, Schedule, Threads


@dataclass(frozen=True, slots=True)
class DepthwiseNchwSchedule(Schedule):
    """NCHW: tiles of `rows` rows of a channel's result by one vector of `lanes` pixels. With
    `hold_weights`, the weights of a channel stay in registers beside a tile's sums. `threads` share
    batches, channels and bands of rows, as one loop.
    """

    template: ClassVar[str] = "depthwise_nchw"
    rows: Positive
    lanes: Positive
    hold_weights: bool
    threads: Threads


@dataclass(frozen=True, slots=True)
class DepthwiseNhwcSchedule(Schedule):
    """NHWC: tiles of `pixels` along a row by `vectors` of `lanes` channels. `threads` share
    batches, rows and panels of that many channels, as one loop.
    """

    template: ClassVar[str] = "depthwise_nhwc"
    pixels: Positive
    vectors: Positive
    lanes: Positive
    threads: Threads
