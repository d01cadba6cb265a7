"""Numbers in a device's memory that the host reads and writes between steps."""

from __future__ import annotations

import time

import numpy as np

from xlac_sdk.backend import Device, MemoryPlace
from xlac_sdk.dtypes import DType
from xlac_sdk.programs.program import Stamp


def read(device: Device, place: MemoryPlace, dtype: DType) -> int:
    """One number from the device, waiting for it."""
    value = np.zeros(dtype.nbytes, np.uint8)
    device.copy(value.data, place, dtype.nbytes)
    device.sync()
    return int(value.view(dtype.numpy)[0])


def write(device: Device, place: MemoryPlace, value: int) -> None:
    """One i64 to the device, waiting for it."""
    number = np.asarray([value], np.int64).view(np.uint8)
    device.copy(place, number.data, number.nbytes)
    device.sync()


def stamp(device: Device, step: Stamp, start: MemoryPlace, offset: int) -> None:
    """Does what a Stamp says, with the host's clock in nanoseconds, when everything before is done.
    The log begins at `start`, `offset` elements into its slot.
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
