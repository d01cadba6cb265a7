"""Schedules of random bits on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Positive, Schedule, Threads


@dataclass(frozen=True, slots=True)
class RandomRowsSchedule(Schedule):
    """Random bits whose cipher blocks are contiguous in the result: vectors of `lanes` cipher
    blocks, whose words are interleaved in registers. `threads` share the rows, and pieces of
    `batch` vectors of each.
    """

    template: ClassVar[str] = "random_rows"
    lanes: Positive
    batch: Positive
    threads: Threads


@dataclass(frozen=True, slots=True)
class RandomPlanesSchedule(Schedule):
    """Random bits in which the words of a cipher block are one row of elements apart: vectors of
    `lanes` cipher blocks along that row, with a store for each word. `threads` share the rows.
    """

    template: ClassVar[str] = "random_planes"
    lanes: Positive
    threads: Threads


RandomSchedule = RandomRowsSchedule | RandomPlanesSchedule
RANDOM = (RandomRowsSchedule, RandomPlanesSchedule)
