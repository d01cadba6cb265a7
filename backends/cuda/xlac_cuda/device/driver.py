"""CUDA's driver API by ctypes: every call is checked, and failures become diagnostics."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from xlac_cuda.device.errors import failure
from xlac_sdk.source import Diagnostic, UnavailableError

LIBRARY = "libcuda.so.1"
OLDEST = 12000  # the minimal version of the driver API: CUDA 12.0

# Parameters, a letter each: i int, u unsigned, z bytes, d address on the device, h handle or
# address here, l 64 bits
_TYPES = {
    "i": ctypes.c_int,
    "u": ctypes.c_uint,
    "z": ctypes.c_size_t,
    "d": ctypes.c_uint64,
    "h": ctypes.c_void_p,
    "l": ctypes.c_ulonglong,
}
SIGNATURES = {
    "cuInit": "u",
    "cuDriverGetVersion": "h",
    "cuDeviceGetCount": "h",
    "cuDeviceGet": "hi",
    "cuDeviceGetName": "hii",
    "cuDeviceGetAttribute": "hii",
    "cuDeviceTotalMem_v2": "hi",
    "cuDevicePrimaryCtxRetain": "hi",
    "cuDevicePrimaryCtxRelease_v2": "i",
    "cuCtxPushCurrent_v2": "h",
    "cuCtxPopCurrent_v2": "h",
    "cuModuleLoadData": "hh",
    "cuModuleUnload": "h",
    "cuModuleGetFunction": "hhh",
    "cuFuncSetAttribute": "hii",
    "cuMemAlloc_v2": "hz",
    "cuMemFree_v2": "d",
    "cuMemAllocAsync": "hzh",
    "cuMemFreeAsync": "dh",
    "cuMemGetInfo_v2": "hh",
    "cuMemHostAlloc": "hzu",
    "cuMemFreeHost": "h",
    "cuMemcpyHtoDAsync_v2": "dhzh",
    "cuMemcpyDtoHAsync_v2": "hdzh",
    "cuMemcpyDtoDAsync_v2": "ddzh",
    "cuMemsetD8Async": "dczh",
    "cuStreamCreate": "hu",
    "cuStreamDestroy_v2": "h",
    "cuStreamSynchronize": "h",
    "cuStreamWaitEvent": "hhu",
    "cuStreamBeginCapture_v2": "hi",
    "cuStreamEndCapture": "hh",
    "cuEventCreate": "hu",
    "cuEventRecord": "hh",
    "cuEventQuery": "h",
    "cuEventSynchronize": "h",
    "cuEventDestroy_v2": "h",
    "cuTensorMapEncodeTiled": "hiuhhhhhiiii",
    "cuLaunchKernel": "huuuuuuuhhh",
    "cuGraphCreate": "hu",
    "cuGraphDestroy": "h",
    "cuGraphGetNodes": "hhh",
    "cuGraphAddKernelNode_v2": "hhhzh",
    "cuGraphAddMemcpyNode": "hhhzhh",
    "cuGraphAddChildGraphNode": "hhhzh",
    "cuGraphAddEmptyNode": "hhhz",
    "cuGraphAddNode_v2": "hhhhzh",
    "cuGraphConditionalHandleCreate": "hhhuu",
    "cuGraphKernelNodeGetParams_v2": "hh",
    "cuGraphInstantiateWithFlags": "hhl",
    "cuGraphExecKernelNodeSetParams_v2": "hhh",
    "cuGraphExecMemcpyNodeSetParams": "hhhh",
    "cuGraphExecDestroy": "h",
    "cuGraphLaunch": "hh",
}
_TYPES["c"] = ctypes.c_ubyte

MULTIPROCESSORS, MAJOR, MINOR = 16, 75, 76  # CU_DEVICE_ATTRIBUTE_…


class Driver:
    """The driver's library. `driver("cuMemFree_v2", address)` calls it and raises the error of
    `errors.failure` for a failure.

    `raw` has the same functions unchecked, for calls where every microsecond counts.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self.version = 0  # the driver's CUDA version, as 12040, cached
        self.raw: dict[str, Callable[..., int]] = {}
        for name, letters in SIGNATURES.items():
            try:
                function = getattr(library, name)
            except AttributeError:
                self.raw[name] = _absent
                continue
            function.argtypes = [_TYPES[letter] for letter in letters]
            function.restype = ctypes.c_int
            self.raw[name] = function

    def __call__(self, call: str, *given: Any) -> None:
        code = self.raw[call](*given)
        if code:
            raise self.failure(call, code)

    def failure(self, call: str, code: int) -> Exception:
        """The error for a nonzero code."""
        return failure(
            call, code, self.text_of("cuGetErrorName", code), self.text_of("cuGetErrorString", code)
        )

    def text_of(self, call: str, code: int) -> str:
        """The driver's name or text for a code."""
        text = ctypes.c_char_p()
        getattr(self._library, call)(code, ctypes.byref(text))
        return (text.value or b"").decode(errors="replace")

    def handle(self, call: str, *given: Any) -> int:
        """The handle or address that a call writes to its first parameter."""
        handle = ctypes.c_uint64()
        self(call, ctypes.addressof(handle), *given)
        return handle.value

    def number(self, call: str, *given: Any) -> int:
        """The int that a call writes to its first parameter."""
        value = ctypes.c_int()
        self(call, ctypes.addressof(value), *given)
        return value.value


def _absent(*given: object) -> int:
    return 35  # CUDA_ERROR_INSUFFICIENT_DRIVER: too old to have the function


@cache
def driver() -> Driver:
    """The driver of this machine, initialized. Raises UnsupportedError if there is none, no GPU, or
    an old one.
    """
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        problem = f"there is no CUDA driver on this machine ({LIBRARY})"
        hint = "programs for GPUs are written and compiled without one, and run where there is one"
        raise UnavailableError(Diagnostic("XL5210", problem, hint=hint)) from None
    loaded = Driver(library)
    loaded("cuInit", 0)
    version = loaded.version = loaded.number("cuDriverGetVersion")
    if version < OLDEST:
        problem = (
            "the GPU's driver is too old: it supports CUDA "
            f"{version // 1000}.{version % 1000 // 10}"
        )
        raise UnavailableError(
            Diagnostic("XL5212", problem, hint=f"xlac needs CUDA {OLDEST // 1000} or later")
        )
    return loaded
