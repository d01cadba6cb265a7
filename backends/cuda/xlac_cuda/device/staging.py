"""Copies between host and device in pieces through pinned memory: the device copies one piece while
the host prepares the next.
"""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from xlac_cuda.device.gpu import Gpu
from xlac_cuda.device.memory import ALIGN

PIECE = 4 << 20  # most bytes of a piece
PIECES = 4  # fewest pieces in flight
MOST_PIECES = 64

Bytes = NDArray[np.uint8]


class Staging:
    """Pieces of pinned memory, used in turn. The context must be current in every method."""

    def __init__(self, gpu: Gpu, largest: int, arrays: int) -> None:
        """For arrays of at most `largest` bytes, `arrays` of them in a call."""
        self._gpu = gpu
        self._piece = min(PIECE, max(ALIGN, -(-largest // ALIGN) * ALIGN))
        self._count = min(
            max(arrays, PIECES), max(PIECES, MOST_PIECES * ALIGN // self._piece), MOST_PIECES
        )
        self._address = 0
        self._events: list[int] = []
        self._used: list[bool] = [False] * self._count
        self._next = 0

    def _take(self) -> tuple[int, Bytes]:
        """A piece that is no longer in use: its number, and its memory."""
        if not self._address:
            self._address = self._gpu.pinned(self._piece * self._count)
            whole = (ctypes.c_uint8 * (self._piece * self._count)).from_address(self._address)
            self._memory: Bytes = np.ctypeslib.as_array(whole)
            self._events = [self._gpu.event() for _ in range(self._count)]
        number = self._next
        self._next = (number + 1) % self._count
        if self._used[number]:
            self._gpu.reached(self._events[number])
        self._used[number] = True
        start = number * self._piece
        return number, self._memory[start : start + self._piece]

    def upload(self, target: int, source: Bytes, stream: int) -> None:
        """Copies to the device. The source may be changed when this returns."""
        for start in range(0, len(source), self._piece):
            part = source[start : start + self._piece]
            number, memory = self._take()
            memory[: len(part)] = part
            self._gpu.upload(
                target + start, self._address + number * self._piece, len(part), stream
            )
            self._gpu.record(self._events[number], stream)

    def download(self, target: Bytes, source: int, stream: int) -> None:
        """Copies from the device. The target is complete when this returns."""
        waiting: list[tuple[int, Bytes, Bytes]] = []
        for start in range(0, len(target), self._piece):
            if len(waiting) == self._count:
                self._finish(*waiting.pop(0))
            part = target[start : start + self._piece]
            number, memory = self._take()
            self._gpu.download(
                self._address + number * self._piece, source + start, len(part), stream
            )
            self._gpu.record(self._events[number], stream)
            waiting.append((number, memory, part))
        for one in waiting:
            self._finish(*one)

    def _finish(self, number: int, memory: Bytes, part: Bytes) -> None:
        self._gpu.reached(self._events[number])
        part[:] = memory[: len(part)]

    def close(self) -> None:
        """Frees the pinned memory."""
        while self._events:
            self._gpu.drop_event(self._events.pop())
        if self._address:
            del self._memory
            self._gpu.unpin(self._address)
            self._address = 0
