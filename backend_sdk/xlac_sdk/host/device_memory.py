"""Reads and writes single numbers in a device's memory, between steps."""

from __future__ import annotations

import time

import numpy as np

from xlac_sdk.backend import Device, MemoryPlace
from xlac_sdk.dtypes import DType
from xlac_sdk.programs.program import Stamp


def read(device: Device, place: MemoryPlace, dtype: DType) -> int:
    """Reads one number from the device, after waiting for it."""
    value = np.zeros(dtype.nbytes, np.uint8)
    device.copy(value.data, place, dtype.nbytes)
    device.sync()
    return int(value.view(dtype.numpy)[0])


def write(device: Device, place: MemoryPlace, value: int) -> None:
    """Writes one i64 to the device, and waits for it."""
    number = np.asarray([value], np.int64).view(np.uint8)
    device.copy(place, number.data, number.nbytes)
    device.sync()


def stamp(device: Device, step: Stamp, start: MemoryPlace, offset: int) -> None:
    """Executes a Stamp with the host's clock, in nanoseconds, after all earlier work is done. The
    log begins at `start`, `offset` elements into its slot.
    """
    device.sync()
    now = time.perf_counter_ns()
    count = 0 if step.code == 0 else read(device, start, step.log.slot.dtype)
    room = step.log.slot.size - offset - step.parts
    if step.parts and not step.code:
        write(device, start.plus(8 * room), 0)
    if 3 + 2 * count <= room:
        for place, value in ((1 + 2 * count, step.code), (2 + 2 * count, now), (0, count + 1)):
            write(device, start.plus(8 * place), value)
