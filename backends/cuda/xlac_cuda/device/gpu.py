"""A GPU by its number: its context, memory, code and streams. One object for each device in the
process.

The context is the device's primary one, which other libraries in the process share, so arrays can
be exchanged. It is current only between `push` and `pop`, also on errors; the calling thread's
state is restored.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

from xlac_cuda.device.driver import MAJOR, MINOR, MULTIPROCESSORS, Driver, driver
from xlac_cuda.device.errors import NOT_READY, DeviceError
from xlac_sdk.source import Diagnostic, SourceError

NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: not synchronized with the legacy stream
NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING
DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
USUAL_SHARED = 48 << 10  # bytes of dynamic shared memory available without an attribute
BUFFER, BUFFER_BYTES, END = 1, 2, 0  # CU_LAUNCH_PARAM_…


class Gpu:
    """One device, by ctypes. Addresses and handles are plain integers."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.driver: Driver = driver()
        count = self.driver.number("cuDeviceGetCount")
        if not 0 <= index < count:
            here = f"GPUs 0 to {count - 1}" if count > 1 else "GPU 0 only"
            raise SourceError(
                Diagnostic("XL5211", f"there is no GPU {index}", hint=f"this machine has {here}")
            )
        self.device = self.driver.number("cuDeviceGet", index)
        # the error of the kernel that destroyed the context, once known
        self.fault: DeviceError | None = None
        self.pins: dict[int, int] = {}  # bytes of arrays in pinned memory, by their addresses
        self._ignored = ctypes.c_void_p()
        self._popped = ctypes.addressof(self._ignored)
        self._push, self._pop = (
            self.driver.raw["cuCtxPushCurrent_v2"],
            self.driver.raw["cuCtxPopCurrent_v2"],
        )
        self.context = self._retain()

    def _retain(self) -> int:
        """Retains the primary context for the life of the process: objects collected last may still
        need it.
        """
        return self.driver.handle("cuDevicePrimaryCtxRetain", self.device)

    # ---- the context -------------------------------------------------------------------------

    def push(self) -> None:
        """Makes the context current in this thread, until `pop`."""
        code = self._push(self.context)
        if code:
            raise self.driver.failure("cuCtxPushCurrent_v2", code)

    def pop(self) -> None:
        """Restores this thread's previous context."""
        code = self._pop(self._popped)
        if code:
            raise self.driver.failure("cuCtxPopCurrent_v2", code)

    @contextmanager
    def current(self) -> Iterator[None]:
        """A scope in which the context is current."""
        self.push()
        try:
            yield
        finally:
            self.pop()

    # ---- facts -------------------------------------------------------------------------------

    @cached_property
    def name(self) -> str:
        """NVIDIA's name of the device."""
        text = ctypes.create_string_buffer(256)
        self.driver("cuDeviceGetName", ctypes.addressof(text), len(text), self.device)
        return text.value.decode(errors="replace")

    @cached_property
    def capability(self) -> tuple[int, int]:
        """Compute capability, as (9, 0)."""
        return self._attribute(MAJOR), self._attribute(MINOR)

    @cached_property
    def processors(self) -> int:
        """The number of multiprocessors."""
        return self._attribute(MULTIPROCESSORS)

    @property
    def memory(self) -> tuple[int, int]:
        """Free and total bytes of memory. The context must be current."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.driver("cuMemGetInfo_v2", ctypes.addressof(free), ctypes.addressof(total))
        return free.value, total.value

    def _attribute(self, which: int) -> int:
        return self.driver.number("cuDeviceGetAttribute", which, self.device)

    # ---- memory ------------------------------------------------------------------------------

    def alloc(self, nbytes: int) -> int:
        """Memory of the device, aligned to 256 bytes."""
        return self.driver.handle("cuMemAlloc_v2", nbytes)

    def free(self, address: int) -> None:
        """Frees memory of `alloc`."""
        self.driver("cuMemFree_v2", address)

    def pinned(self, nbytes: int) -> int:
        """Pinned memory of the host, for asynchronous copies."""
        return self.driver.handle("cuMemHostAlloc", nbytes, 0)

    def unpin(self, address: int) -> None:
        """Frees memory of `pinned`."""
        self.driver("cuMemFreeHost", address)

    def upload(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copies from the host, in a stream. Pageable memory has been read when this returns."""
        self.driver("cuMemcpyHtoDAsync_v2", target, source, nbytes, stream)

    def download(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copies to the host, in a stream."""
        self.driver("cuMemcpyDtoHAsync_v2", target, source, nbytes, stream)

    def move(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copies on the device."""
        self.driver("cuMemcpyDtoDAsync_v2", target, source, nbytes, stream)

    def clear(self, target: int, nbytes: int, stream: int) -> None:
        """Sets bytes to zero, in a stream."""
        self.driver("cuMemsetD8Async", target, 0, nbytes, stream)

    # ---- code --------------------------------------------------------------------------------

    def load(self, image: bytes) -> int:
        """A module, from machine code or PTX."""
        return self.driver.handle(
            "cuModuleLoadData", ctypes.cast(ctypes.c_char_p(image), ctypes.c_void_p)
        )

    def unload(self, module: int) -> None:
        """Unloads a module and its kernels."""
        self.driver("cuModuleUnload", module)

    def function(self, module: int, name: str, dynamic: int, nbytes: int) -> int:
        """A kernel of a module, which may use `dynamic` bytes of shared memory and takes arguments
        of `nbytes`.
        """
        text = ctypes.c_char_p(name.encode())
        function = self.driver.handle(
            "cuModuleGetFunction", module, ctypes.cast(text, ctypes.c_void_p)
        )
        if dynamic > USUAL_SHARED:
            self.driver("cuFuncSetAttribute", function, DYNAMIC_SHARED, dynamic)
        return function

    def launch(
        self, function: int, blocks: int, threads: int, dynamic: int, packed: bytes, stream: int
    ) -> None:
        """Runs a kernel, in a stream."""
        with_arguments = Packed(packed)
        self.driver(
            "cuLaunchKernel",
            function,
            blocks,
            1,
            1,
            threads,
            1,
            1,
            dynamic,
            stream,
            None,
            with_arguments.extra,
        )

    # ---- streams and events ------------------------------------------------------------------

    def stream(self) -> int:
        """A new non-blocking stream."""
        return self.driver.handle("cuStreamCreate", NON_BLOCKING)

    def drop_stream(self, stream: int) -> None:
        """Destroys a stream once its work is done."""
        self.driver("cuStreamDestroy_v2", stream)

    def sync(self, stream: int) -> None:
        """Waits for all work of a stream; raises its errors."""
        self.driver("cuStreamSynchronize", stream)

    def event(self) -> int:
        """A new event."""
        return self.driver.handle("cuEventCreate", NO_TIMING)

    def record(self, event: int, stream: int) -> None:
        """Records an event, which is reached when the stream's work so far is done."""
        self.driver("cuEventRecord", event, stream)

    def wait(self, stream: int, event: int) -> None:
        """Makes later work of the stream wait for the event."""
        self.driver("cuStreamWaitEvent", stream, event, 0)

    def reached(self, event: int) -> None:
        """Waits for an event on the host."""
        self.driver("cuEventSynchronize", event)

    def has_reached(self, event: int) -> bool:
        """Whether an event is reached; raises errors of its stream."""
        code = self.driver.raw["cuEventQuery"](event)
        if code not in (0, NOT_READY):
            raise self.driver.failure("cuEventQuery", code)
        return code == 0

    def drop_event(self, event: int) -> None:
        """Destroys an event."""
        self.driver("cuEventDestroy_v2", event)


class Packed:
    """A kernel's arguments in the driver's format: one packed buffer, and an array that points at
    it.
    """

    def __init__(self, packed: bytes) -> None:
        self._buffer = ctypes.create_string_buffer(packed, len(packed))
        self._bytes = ctypes.c_size_t(len(packed))
        self._extra = (ctypes.c_void_p * 5)(
            BUFFER, ctypes.addressof(self._buffer), BUFFER_BYTES, ctypes.addressof(self._bytes), END
        )
        self.extra = ctypes.addressof(self._extra)

    def fill(self, packed: bytes) -> None:
        """Replaces the arguments."""
        self._buffer.raw = packed
