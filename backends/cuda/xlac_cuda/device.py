"""The GPUs of this machine, as the driver tells of them."""

from __future__ import annotations

import ctypes

CAPABILITY = (75, 76)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR


def architecture() -> str | None:
    """The architecture of the first GPU, as compilers name it; None without a driver or a GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, numbers = ctypes.c_int(), [ctypes.c_int(), ctypes.c_int()]
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0):
        return None
    for number, attribute in zip(numbers, CAPABILITY, strict=True):
        if driver.cuDeviceGetAttribute(ctypes.byref(number), attribute, device):
            return None
    major, minor = (number.value for number in numbers)
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"
