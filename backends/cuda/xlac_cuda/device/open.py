"""The objects that drive GPUs: by pycuda if it is installed, else by ctypes. One for each GPU in
the process.
"""

from __future__ import annotations

import threading

from xlac_cuda.device.driver import driver
from xlac_cuda.device.gpu import Gpu

_gpus: dict[int, Gpu] = {}
_lock = threading.Lock()


def gpu(index: int = 0) -> Gpu:
    """The device with a number, with its context; the same object each time.

    By pycuda if it is installed. Raises UnsupportedError without a driver or a GPU, SourceError for
    an invalid number.
    """
    with _lock:
        if index not in _gpus:
            _gpus[index] = _opened(index)
        return _gpus[index]


def _opened(index: int) -> Gpu:
    driver()  # raises xlac's error before pycuda raises its own
    try:  # pycuda need not be installed
        from xlac_cuda.device.pycuda_gpu import PycudaGpu
    except ImportError:
        return Gpu(index)
    return PycudaGpu(index)
