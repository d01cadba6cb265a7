"""A device, and a driver's calls in C, that notice a second thread in what one thread began."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from xlac_sdk.device import Device, MemoryPlace
from xlac_sdk.host.device_c.driver import HostDriver
from xlac_sdk.kernel_ir.kernel import Kernel

SECONDS = 0.2  # how long the first launch waits for a second thread
TOLD = "a second thread uses the device"
LAUNCH = (
    "static int device_launch(struct device *device, int kernel, const memory_place *places, "
    "const int64_t *sizes, int64_t blocks)\n{"
)


class OneThread(Device):
    """Another device, used by one thread from its first copy or launch to `sync`. The first launch
    waits for other threads; `inside` is set while it does.
    """

    def __init__(self, device: Device) -> None:
        self.device, self.owner = device, 0
        self.inside, self.second = threading.Event(), threading.Event()

    def _used(self, function: Callable[..., object], *given: object, first: bool = False) -> object:
        me = threading.get_ident()
        if self.owner not in (0, me):
            self.second.set()
            raise AssertionError(TOLD)
        self.owner = me
        if first and not self.inside.is_set():
            self.inside.set()
            self.second.wait(SECONDS)
        return function(*given)

    def alloc(self, nbytes: int) -> Any:
        return self.device.alloc(nbytes)

    def copy(
        self, target: MemoryPlace | memoryview, source: MemoryPlace | memoryview, nbytes: int
    ) -> None:
        self._used(self.device.copy, target, source, nbytes)

    def view(self, place: MemoryPlace, nbytes: int) -> memoryview | None:
        return self.device.view(place, nbytes)

    def launch(
        self, kernel: Kernel, places: tuple[MemoryPlace, ...], sizes: tuple[int, ...]
    ) -> None:
        self._used(self.device.launch, kernel, places, sizes, first=True)

    def prepare(
        self, kernel: Kernel, places: tuple[MemoryPlace, ...], sizes: tuple[int, ...]
    ) -> Callable[[], object]:
        return partial(self._used, self.device.prepare(kernel, places, sizes), first=True)

    def sync(self) -> None:
        self._used(self.device.sync)
        self.owner = 0

    def free(self, handle: Any) -> None:
        self.device.free(handle)


def one_thread(driver: HostDriver) -> HostDriver:
    """A driver's calls in C whose launches fail for a second thread; `device_begun` is 1 from the
    first one on, which waits.
    """
    assert driver.text.count(LAUNCH) == 1
    renamed = driver.text.replace(LAUNCH, LAUNCH.replace("device_launch", "launched", 1))
    text = f"""#include <unistd.h>
{renamed}
volatile int device_inside, device_begun;

{LAUNCH}
    if (__sync_lock_test_and_set(&device_inside, 1)) return failed(device, "{TOLD}");
    if (!device_begun) {{
        device_begun = 1;
        usleep({round(SECONDS * 1e6)});
    }}
    const int status = launched(device, kernel, places, sizes, blocks);
    __sync_lock_release(&device_inside);
    return status;
}}
"""
    return replace(driver, text=text)
