"""OpenCL's devices: memory objects with offsets, one queue, kernels with bound arguments."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from xlac_opencl.dialect import OPENCL
from xlac_sdk.device import CopyEnd, MemoryPlace, Places, Sizes
from xlac_sdk.host.device_memory import out_of_memory
from xlac_sdk.host.plan import Planned
from xlac_sdk.host.ports.bound_device import BoundDevice
from xlac_sdk.kernel_ir.grid import launched
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.source import Diagnostic, UnsupportedError

INSTALL = "pip install pyopencl, and a driver: the GPU's, or `apt-get install pocl-opencl-icd`"
OPTIONS = "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt"


def device_of(number: int) -> Any:
    """The device of a number, over all platforms. Raises UnsupportedError if there is none."""
    try:
        import pyopencl

        devices = [d for p in pyopencl.get_platforms() for d in p.get_devices()]
        if number < len(devices):
            return devices[number]
        problem = f"there is no OpenCL device {number}; there are {len(devices)}"
    except Exception as error:  # no package, no loader, no platform: each raises its own
        problem = f"no OpenCL device can be used: {type(error).__name__}: {error}"
    raise UnsupportedError(Diagnostic("XL5203", problem, hint=INSTALL))


class OpenCLDevice(BoundDevice):
    """A program on a device, in a context of its own. Its memory is shared virtual memory of the
    host where the device has that, in memory objects all the same.
    """

    def __init__(self, text: Path, device: Any) -> None:
        import pyopencl

        super().__init__()
        self.cl = pyopencl
        self.context = pyopencl.Context([device])
        self.virtual: dict[Any, Any] = {}  # what the host sees of a memory object
        self.shared = bool(device.host_unified_memory)
        later = self.shared and not device.version.startswith("OpenCL 1.")
        self.fine = later and bool(device.svm_capabilities & 2)  # CL_DEVICE_SVM_FINE_GRAIN_BUFFER
        self.queue = pyopencl.CommandQueue(self.context)
        try:
            program = pyopencl.Program(self.context, text.read_text(encoding="utf-8"))
            self.program = program.build(OPTIONS.split())
        except pyopencl.RuntimeError as error:
            problem = f"the driver of {device.name} refuses {text.name}: {error}"
            raise UnsupportedError(Diagnostic("XL5023", problem[:4000])) from None

    def alloc(self, nbytes: int) -> Any:
        flags, kind = self.cl.mem_flags.READ_WRITE, self.cl.svm_mem_flags
        try:
            if not self.fine:
                return self.cl.Buffer(self.context, flags, nbytes)
            fine = kind.READ_WRITE | kind.SVM_FINE_GRAIN_BUFFER
            memory = self.cl.SVMAllocation(self.context, nbytes, 0, fine)
            made = self.adopt(memory.buf.data, True)
            self.virtual[made] = memory
            return made
        except self.cl.Error:
            raise out_of_memory(nbytes) from None

    def copy(self, target: CopyEnd, source: CopyEnd, nbytes: int) -> None:
        both = {"src_offset": source, "dst_offset": target}
        ends = {name: end.offset for name, end in both.items() if isinstance(end, MemoryPlace)}
        more = {"byte_count": nbytes} if len(ends) == 2 else {"is_blocking": False}
        copy: Any = self.cl.enqueue_copy
        copy(self.queue, *(_copied(end, nbytes) for end in (target, source)), **ends, **more)

    def view(self, place: MemoryPlace, nbytes: int) -> memoryview | None:
        memory = self.virtual.get(place.handle)
        return memory and memory.buf.data[place.offset : place.offset + nbytes]

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

    def function(self, kernel: Kernel) -> Any:
        """A kernel of the driver, with arguments of its own."""
        return self.cl.Kernel(self.program, OPENCL.function(kernel.name))

    def bind(self, function: Any, kernel: Kernel, places: Places, sizes: Sizes) -> Planned:
        blocks, threads = launched(kernel, sizes)
        if not blocks:
            return lambda: None
        pairs = [(b.dtype.nbytes, p) for b, p in zip(kernel.parameters, places, strict=True)]
        given = [one for size, p in pairs for one in (p.handle, np.int64(p.offset // size))]
        function.set_args(*given, *map(np.int64, sizes))
        shape = (blocks * threads,), (threads,)
        return partial(self.cl.enqueue_nd_range_kernel, self.queue, function, *shape)

    def sync(self) -> None:
        self.queue.finish()

    def event(self) -> Planned:
        mark: Any = self.cl.enqueue_marker(self.queue)
        self.queue.flush()  # the driver need not begin before
        return partial(mark.wait)

    def free(self, handle: Any) -> None:
        handle.release()
        self.virtual.pop(handle, None)


def _copied(end: CopyEnd, nbytes: int) -> Any:
    """An end of a copy, as pyopencl takes it."""
    return end.handle if isinstance(end, MemoryPlace) else np.frombuffer(end, np.uint8, nbytes)
