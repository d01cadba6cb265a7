"""Where arrays lie: on the boundaries of cache lines, or in mapped files."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

import numpy as np

from xlac.ir.op import Array

LINE = 64  # bytes


def on_a_line(size: int, dtype: np.dtype[Any]) -> Array:
    """Zeros that begin where a cache line does, so that vectors need not straddle lines."""
    room = np.zeros(size * dtype.itemsize + LINE, np.uint8)
    start = -room.ctypes.data % LINE
    return room[start : start + size * dtype.itemsize].view(dtype)


def give_back() -> None:
    """Has the C library return memory that was freed to the system, where it would keep tens of megabytes of it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


def forget(array: Array) -> None:
    """Lets the system take back the memory of what was read of a mapped file through an array.

    Who reads it again gets it from the file again. Arrays that are not in a mapped file, and files mapped so that
    they can be written to, are left alone.
    """
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    if not isinstance(owner, mmap.mmap) or not hasattr(mmap, "MADV_DONTNEED") or not array.nbytes:
        return
    whole = memoryview(owner)
    if not whole.readonly:
        return  # what was written to a private mapping would be lost
    low, high = np.lib.array_utils.byte_bounds(array)
    begin = np.frombuffer(whole, np.uint8).ctypes.data
    first = -(-(low - begin) // mmap.PAGESIZE) * mmap.PAGESIZE
    last = (high - begin) // mmap.PAGESIZE * mmap.PAGESIZE
    if first < last:
        owner.madvise(mmap.MADV_DONTNEED, first, last - first)
