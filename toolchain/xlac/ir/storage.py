"""The memory layout of arrays: alignment to cache lines, and strided views."""

from __future__ import annotations

import ctypes
import os
from math import prod
from typing import Any

import numpy as np

from xlac.ir.op import Array

LINE = 64  # bytes


def on_a_line(size: int, dtype: np.dtype[Any]) -> Array:
    """Zeros, aligned to a cache line, so that vector loads do not straddle lines."""
    room = np.zeros(size * dtype.itemsize + LINE, np.uint8)
    start = -room.ctypes.data % LINE
    return room[start : start + size * dtype.itemsize].view(dtype)


def give_back() -> None:
    """Asks the C library to return freed memory to the system, of which it may keep tens of
    megabytes.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


def stepped(
    array: Array, shape: tuple[int, ...], steps: tuple[int, ...], offset: int, own: int
) -> Array:
    """A view of an array whose axes each have a stride of `steps` elements in row-major order,
    starting at element `offset`.

    No data is copied where every step follows axes of the array, however those lie in memory. A
    step across several axes becomes as many axes, unless it is one of the first `own` or the last.
    """
    parts = [] if offset else [_along(array, *axis) for axis in zip(shape, steps, strict=True)]
    taken = [axis for part in parts for _, axis in part if axis is not None]
    whole = all(len(part) == 1 for part in (*parts[:own], *parts[-1:]))
    if parts and all(parts) and whole and len(set(taken)) == len(taken):
        extents = [extent for part in parts for extent, _ in part]
        strides = [0 if axis is None else array.strides[axis] for part in parts for _, axis in part]
    else:
        array = np.ascontiguousarray(array).reshape(-1)[offset:]
        extents, strides = list(shape), [step * array.itemsize for step in steps]
    return np.lib.stride_tricks.as_strided(array, extents, strides, writeable=False)


def _along(array: Array, extent: int, step: int) -> list[tuple[int, int | None]]:
    """An axis of `extent` steps over elements in row-major order, as axes of the array, each with
    its extent; empty where the steps do not follow axes.
    """
    if extent == 1:
        return [(1, None)]
    axis = next(
        (
            a
            for a, size in enumerate(array.shape)
            if size > 1 and prod(array.shape[a + 1 :]) == step
        ),
        -1,
    )
    axes: list[tuple[int, int | None]] = []
    while axis >= 0 and extent > array.shape[axis] and extent % array.shape[axis] == 0:
        axes.insert(0, (array.shape[axis], axis))
        extent //= array.shape[axis]
        axis -= 1
    return [(extent, axis), *axes] if axis >= 0 and extent <= array.shape[axis] else []
