"""Arrays in memory of the host that a GPU copies by itself, while the host does other work."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlac_cuda.device.errors import DeviceError
from xlac_cuda.device.gpu import Gpu
from xlac_sdk.source import LimitError

Bytes = NDArray[np.uint8]


def pinned_array(gpu: Gpu, nbytes: int) -> Bytes | None:
    """Pinned memory, which is freed when no array has it any more; None where none is left. The
    context must be current.
    """
    try:
        address = gpu.pinned(nbytes)
    except LimitError:
        return None
    memory = (ctypes.c_uint8 * nbytes).from_address(address)
    gpu.pins[address] = nbytes
    weakref.finalize(memory, _unpin, gpu, address)
    return np.ctypeslib.as_array(memory)


def is_pinned(gpu: Gpu, array: NDArray[Any]) -> bool:
    """Whether an array is one of `pinned_array`, from its first byte on."""
    return gpu.pins.get(array.__array_interface__["data"][0], -1) >= array.nbytes


def _unpin(gpu: Gpu, address: int) -> None:
    del gpu.pins[address]
    try:
        with gpu.current():
            gpu.unpin(address)
    except DeviceError:
        return  # the context is lost, and its memory with it
