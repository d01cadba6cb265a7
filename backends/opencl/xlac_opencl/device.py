"""OpenCL's devices: memory objects with offsets, one queue, kernels with bound arguments."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from xlac_opencl.dialect import OPENCL
from xlac_sdk.backend import Device, MemoryPlace
from xlac_sdk.host.plan import Planned
from xlac_sdk.kernel_ir.grid import launched
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.source import Diagnostic, LimitError, UnsupportedError

INSTALL = (
    "pip install pyopencl, and a driver: that of the GPU's vendor, or for processors "
    "`apt-get install pocl-opencl-icd` or `pip install pocl-binary-distribution`"
)
End = MemoryPlace | memoryview
Places = tuple[MemoryPlace, ...]
Sizes = tuple[int, ...]
OPTIONS = "-cl-std=CL1.2"
EXACT = "-cl-fp32-correctly-rounded-divide-sqrt"


def opened(number: int) -> Any:
    """The device of a number, over all platforms. Raises UnsupportedError if there is none."""
    try:
        import pyopencl

        devices = [d for p in pyopencl.get_platforms() for d in p.get_devices()]
    except Exception as error:  # no package, no loader, no platform: each raises its own
        problem = f"no OpenCL device can be used: {type(error).__name__}: {error}"
        raise UnsupportedError(Diagnostic("XL5203", problem, hint=INSTALL)) from None
    if number >= len(devices):
        problem = f"there is no OpenCL device {number}; there are {len(devices)}"
        raise UnsupportedError(Diagnostic("XL5203", problem, hint=INSTALL))
    return devices[number]


class OpenCLDevice(Device):
    """A program on a device, in a context of its own."""

    def __init__(self, text: Path, device: Any) -> None:
        import pyopencl

        self.cl = pyopencl
        self.context = pyopencl.Context([device])
        self.kernels: dict[Kernel, Any] = {}
        self.shared = bool(device.host_unified_memory)
        self.queue = pyopencl.CommandQueue(self.context)
        try:
            program = pyopencl.Program(self.context, text.read_text(encoding="utf-8"))
            self.program = program.build([OPTIONS, EXACT])
        except pyopencl.RuntimeError as error:
            problem = f"the driver of {device.name} refuses {text.name}: {error}"
            raise UnsupportedError(Diagnostic("XL5023", problem[:4000])) from None

    def alloc(self, nbytes: int) -> Any:
        try:
            return self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE, nbytes)
        except self.cl.Error:
            problem = f"the device has no {nbytes} bytes left"
            raise LimitError(Diagnostic("XL4001", problem)) from None

    def copy(self, target: End, source: End, nbytes: int) -> None:
        ends = {}
        if isinstance(source, MemoryPlace):
            ends["src_offset"] = source.offset
        if isinstance(target, MemoryPlace):
            ends["dst_offset"] = target.offset
        more = {"byte_count": nbytes} if len(ends) == 2 else {"is_blocking": False}
        copy: Any = self.cl.enqueue_copy
        copy(self.queue, *(_copied(end, nbytes) for end in (target, source)), **ends, **more)

    def adopt(self, memory: memoryview, written: bool) -> Any:
        if not self.shared:
            return None
        flags = self.cl.mem_flags.READ_WRITE | self.cl.mem_flags.USE_HOST_PTR
        return self.cl.Buffer(self.context, flags, hostbuf=np.frombuffer(memory, np.uint8))

    def give_back(self, handle: Any) -> None:
        whole = (self.cl.map_flags.READ, 0, (handle.size,), np.uint8)
        mapped, _ = self.cl.enqueue_map_buffer(self.queue, handle, *whole)
        mapped.base.release(self.queue)
        self.queue.finish()
        handle.release()

    def launch(self, kernel: Kernel, places: Places, sizes: Sizes) -> None:
        if kernel not in self.kernels:
            self.kernels[kernel] = self._function(kernel)
        self._bound(self.kernels[kernel], kernel, places, sizes)()

    def prepare(self, kernel: Kernel, places: Places, sizes: Sizes) -> Planned:
        return self._bound(self._function(kernel), kernel, places, sizes)

    def _function(self, kernel: Kernel) -> Any:
        """A kernel of the driver, with arguments of its own."""
        return self.cl.Kernel(self.program, OPENCL.function(kernel.name))

    def _bound(self, bound: Any, kernel: Kernel, places: Places, sizes: Sizes) -> Planned:
        blocks, threads = launched(kernel, sizes)
        if not blocks:
            return lambda: None
        given: list[Any] = []
        for buffer, place in zip(kernel.parameters, places, strict=True):
            given += [place.handle, np.int64(place.offset // buffer.dtype.nbytes)]
        bound.set_args(*given, *map(np.int64, sizes))
        shape = (blocks * threads,), (threads,)
        return partial(self.cl.enqueue_nd_range_kernel, self.queue, bound, *shape)

    def sync(self) -> None:
        self.queue.finish()

    def free(self, handle: Any) -> None:
        handle.release()


def _copied(end: End, nbytes: int) -> Any:
    """An end of a copy, as pyopencl takes it."""
    return end.handle if isinstance(end, MemoryPlace) else np.frombuffer(end, np.uint8, nbytes)
