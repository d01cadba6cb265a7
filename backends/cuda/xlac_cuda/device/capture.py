"""Stream capture of work as a graph, and the parameters of a graph's kernel nodes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from xlac_cuda.device.driver import Driver
from xlac_cuda.device.gpu import Packed

THREAD_LOCAL = 1  # the capture mode that is not affected by other threads' calls


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2"""

    _fields_ = (
        ("function", ctypes.c_void_p), ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3),
        ("dynamic", ctypes.c_uint), ("each", ctypes.c_void_p), ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p), ("context", ctypes.c_void_p),
    )  # fmt: skip
    packed: Packed  # keeps the buffers that `extra` points into


def captured(driver: Driver, stream: int, work: Callable[[], None]) -> int:
    """The work submitted to a stream as a graph; none of it runs."""
    graph = ctypes.c_void_p()
    driver("cuStreamBeginCapture_v2", stream, THREAD_LOCAL)
    try:
        work()
    except BaseException:
        driver.raw["cuStreamEndCapture"](stream, ctypes.addressof(graph))
        if graph.value:
            driver("cuGraphDestroy", graph.value)
        raise
    driver("cuStreamEndCapture", stream, ctypes.addressof(graph))
    assert graph.value is not None
    return graph.value
