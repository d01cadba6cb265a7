"""Copies between the host and a device's memory; single numbers between steps."""

from __future__ import annotations

import time

import numpy as np

from xlac_sdk.device import Device, MemoryPlace
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.programs.program import Stamp
from xlac_sdk.source import Diagnostic, LimitError


def out_of_memory(nbytes: int) -> LimitError:
    """The error of a device that has not so many bytes left."""
    return LimitError(Diagnostic("XL4001", f"the device has no {nbytes:,} bytes left"))


def send(device: Device, place: MemoryPlace, array: Array, idle: bool = False) -> None:
    """Copies bytes (u8) to the device, after earlier work, unless it is `idle`. They stay alive and
    unchanged until the next `sync` ends.
    """
    if not array.nbytes:
        return
    seen = device.view(place, array.nbytes)
    if seen is None:
        device.copy(place, array.data, array.nbytes)
        return
    if not idle:
        device.sync()
    seen[:] = array.data


def fetch(device: Device, array: Array, place: MemoryPlace, idle: bool = False) -> bool:
    """Copies bytes (u8) from the device, after earlier work, unless it is `idle`, and says whether
    they are there already; if not, they are after the next `sync`.
    """
    if not array.nbytes:
        return True
    seen = device.view(place, array.nbytes)
    if seen is None:
        device.copy(array.data, place, array.nbytes)
        return False
    if not idle:
        device.sync()
    array.data[:] = seen
    return True


def read(device: Device, place: MemoryPlace, dtype: DType) -> int:
    """Reads one number from the device, after waiting for it."""
    value = np.zeros(dtype.nbytes, np.uint8)
    fetch(device, value, place)
    device.sync()
    return int(value.view(dtype.numpy)[0])


def write(device: Device, place: MemoryPlace, value: int) -> None:
    """Writes one i64 to the device, and waits for it."""
    send(device, place, np.asarray([value], np.int64).view(np.uint8))
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
