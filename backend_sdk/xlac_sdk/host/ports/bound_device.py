"""Devices whose kernels are objects of a driver that keep the arguments of their launches."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from xlac_sdk.device import Device, Places, Sizes
from xlac_sdk.host.plan import Planned
from xlac_sdk.kernel_ir.kernel import Kernel


class BoundDevice(Device):
    """A device with `function` and `bind`, which bind arguments once for many launches."""

    def __init__(self) -> None:
        self._functions: dict[Kernel, Any] = {}

    @abstractmethod
    def function(self, kernel: Kernel) -> Any:
        """A new object of the driver for a kernel."""

    @abstractmethod
    def bind(self, function: Any, kernel: Kernel, places: Places, sizes: Sizes) -> Planned:
        """Binds arguments to an object, in place of earlier ones; returns what launches it."""

    def launch(self, kernel: Kernel, places: Places, sizes: Sizes) -> None:
        if kernel not in self._functions:
            self._functions[kernel] = self.function(kernel)
        self.bind(self._functions[kernel], kernel, places, sizes)()

    def prepare(self, kernel: Kernel, places: Places, sizes: Sizes) -> Planned:
        return self.bind(self.function(kernel), kernel, places, sizes)
