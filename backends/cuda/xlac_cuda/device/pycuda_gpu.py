"""A GPU through pycuda: its context, modules, memory, launches and streams. Features that pycuda
lacks (graphs, copies by address, event handles) use the driver, on pycuda's handles.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pycuda.driver as cuda

from xlac_cuda.device.capture import KernelNode, captured
from xlac_cuda.device.driver import Driver
from xlac_cuda.device.gpu import NON_BLOCKING, USUAL_SHARED, Gpu

SAID = re.compile(r"(\w+) failed: (.*?)(?: - .*)?\s*$", re.DOTALL)
CODES = 1000  # larger than the driver's error numbers


class PycudaGpu(Gpu):
    """One device, by pycuda. Handles and addresses are the driver's."""

    def _retain(self) -> int:
        self._memory: dict[int, Any] = {}  # by address: freed when pycuda's object is dropped
        self._modules: dict[int, Any] = {}
        self._functions: dict[int, tuple[Any, int]] = {}  # by handle, with the module's functions
        self._streams: dict[int, Any] = {}
        with self._converted_errors():
            cuda.init()
            self._context = cuda.Device(self.index).retain_primary_context()
        return int(self._context.handle)

    @contextmanager
    def _converted_errors(self) -> Iterator[None]:
        """Converts errors of pycuda to those of the driver."""
        try:
            yield
        except cuda.Error as error:
            raise self._failure(error) from None

    def _failure(self, error: cuda.Error) -> Exception:
        said = SAID.search(str(error))
        code = _codes(self.driver).get(said[2].strip(), CODES) if said else CODES
        return self.driver.failure(said[1] if said else "pycuda", code)

    def push(self) -> None:  # called often, so without `_converted_errors`
        try:
            self._context.push()
        except cuda.Error as error:
            raise self._failure(error) from None

    def pop(self) -> None:
        """Restores this thread's previous context."""
        try:
            cuda.Context.pop()
        except cuda.Error as error:
            raise self._failure(error) from None

    # ---- memory ------------------------------------------------------------------------------

    def alloc(self, nbytes: int) -> int:
        with self._converted_errors():
            allocation = cuda.mem_alloc(nbytes)
        self._memory[int(allocation)] = allocation
        return int(allocation)

    def free(self, address: int) -> None:
        """Frees memory of `alloc`."""
        with self._converted_errors():
            self._memory.pop(address).free()

    def pinned(self, nbytes: int) -> int:
        with self._converted_errors():
            buffer = cuda.pagelocked_empty(nbytes, np.uint8)
        address = int(buffer.ctypes.data)
        self._memory[address] = buffer.base
        return address

    def unpin(self, address: int) -> None:
        """Frees memory of `pinned`."""
        with self._converted_errors():
            self._memory.pop(address).free()

    # ---- code --------------------------------------------------------------------------------

    def load(self, image: bytes) -> int:
        with self._converted_errors():
            module = cuda.module_from_buffer(image)
        self._modules[id(module)] = module
        return id(module)

    def unload(self, module: int) -> None:
        """Drops pycuda's module and its functions."""
        self._functions = {
            handle: entry for handle, entry in self._functions.items() if entry[1] != module
        }
        del self._modules[module]

    def function(self, module: int, name: str, dynamic: int, nbytes: int) -> int:
        with self._converted_errors():
            kernel = self._modules[module].get_function(name)
            if dynamic > USUAL_SHARED:
                kernel.set_attribute(cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, dynamic)
            handle = self._handle(kernel, bytes(nbytes))
        self._functions[handle] = kernel, module
        return handle

    def _handle(self, function: Any, packed: bytes) -> int:
        """The handle of a function, which pycuda hides: it is read from a captured launch that
        never runs.
        """
        stream = cuda.Stream(NON_BLOCKING)
        graph = captured(
            self.driver,
            stream.handle,
            lambda: function._launch_kernel((1,), (1,), packed, 0, stream),
        )
        try:
            node, count = ctypes.c_void_p(), ctypes.c_size_t(1)
            self.driver("cuGraphGetNodes", graph, ctypes.addressof(node), ctypes.addressof(count))
            parameters = KernelNode()
            self.driver("cuGraphKernelNodeGetParams_v2", node, ctypes.addressof(parameters))
            return int(parameters.function)
        finally:
            self.driver("cuGraphDestroy", graph)

    def launch(
        self, function: int, blocks: int, threads: int, dynamic: int, packed: bytes, stream: int
    ) -> None:
        with self._converted_errors():
            self._functions[function][0]._launch_kernel(
                (blocks,), (threads,), packed, dynamic, self._streams.get(stream)
            )

    # ---- queues ------------------------------------------------------------------------------

    def stream(self) -> int:
        """A new stream, by the handle of pycuda's."""
        with self._converted_errors():
            created = cuda.Stream(NON_BLOCKING)
        self._streams[int(created.handle)] = created
        return int(created.handle)

    def drop_stream(self, stream: int) -> None:
        """Drops pycuda's stream."""
        del self._streams[stream]

    def sync(self, stream: int) -> None:
        if stream not in self._streams:
            super().sync(stream)
            return
        with self._converted_errors():
            self._streams[stream].synchronize()


@cache
def _codes(driver: Driver) -> dict[str, int]:
    """The driver's error codes by their text, which pycuda reports."""
    return {driver.text_of("cuGetErrorString", code): code for code in reversed(range(1, CODES))}
