"""Work that is asked of a stream, captured as a graph, and the parameters of a graph's kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from xlac_cuda.device.driver import Driver
from xlac_cuda.device.gpu import Packed

THREAD_LOCAL = 1  # a capture that other threads' calls do not disturb


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2"""

    _fields_ = (
        ("function", ctypes.c_void_p), ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("dynamic", ctypes.c_uint),
        ("each", ctypes.c_void_p), ("extra", ctypes.c_void_p), ("kernel", ctypes.c_void_p), ("context", ctypes.c_void_p),
    )  # fmt: skip
    packed: Packed  # what `extra` points into


def captured(driver: Driver, stream: int, work: Callable[[], None]) -> int:
    """What is asked of a stream meanwhile, as a graph; nothing of it runs."""
    found = ctypes.c_void_p()
    driver("cuStreamBeginCapture_v2", stream, THREAD_LOCAL)
    try:
        work()
    except BaseException:
        driver.raw["cuStreamEndCapture"](stream, ctypes.addressof(found))
        if found.value:
            driver("cuGraphDestroy", found.value)
        raise
    driver("cuStreamEndCapture", stream, ctypes.addressof(found))
    assert found.value is not None
    return found.value
