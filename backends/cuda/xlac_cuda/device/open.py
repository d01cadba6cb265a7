"""Which object drives a GPU: by pycuda where that is installed, else by ctypes. One for each GPU of
the process.
"""

from __future__ import annotations

import threading

from xlac_cuda.device.driver import driver
from xlac_cuda.device.gpu import Gpu

_gpus: dict[int, Gpu] = {}
_lock = threading.Lock()


def gpu(index: int = 0) -> Gpu:
    """The device of a number, with its context; the same object each time.

    By pycuda where it is installed. Raises UnsupportedError without a driver or a GPU, SourceError
    for another number.
    """
    with _lock:
        if index not in _gpus:
            _gpus[index] = _opened(index)
        return _gpus[index]


def _opened(index: int) -> Gpu:
    driver()  # without one pycuda would say so in its own words
    try:  # pycuda need not be installed
        from xlac_cuda.device.pycuda_gpu import PycudaGpu
    except ImportError:
        return Gpu(index)
    return PycudaGpu(index)
