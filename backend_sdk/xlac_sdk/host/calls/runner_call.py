"""A call of a program that a `Runner` has on its device, in the parts that may pass beside other
work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from xlac_sdk.device import MemoryPlace
from xlac_sdk.dtypes import Array
from xlac_sdk.host.device_memory import send
from xlac_sdk.host.plan import LaunchPlans, run
from xlac_sdk.programs.program import Slot
from xlac_sdk.programs.sizes import of_call

if TYPE_CHECKING:
    from xlac_sdk.host.runner import Runner

LARGE = 1 << 20  # bytes from which a device may use an array without a copy


class RunnerCall:
    """A `CallInFlight`. The runner's lock is held while there is one; `free` gives it back."""

    def __init__(
        self, runner: Runner, plans: LaunchPlans, free: Callable[[], None] | None = None
    ) -> None:
        self._runner, self._plans, self._free = runner, plans, free
        self._given: dict[str, Array] = {}  # the inputs
        self._sent: list[Array] = []  # kept alive until the device has read them
        self._read: list[Any] = []  # handles of inputs that the device uses where they are
        self._written: dict[str, Any] = {}  # the same of outputs
        self._left: dict[str, tuple[Slot, Array]] = {}  # outputs that are to be copied
        self._arrived: dict[str, Callable[[], object]] = {}  # waits for the copies of outputs
        self._idle = False  # the device has done all of it
        self._issued = False  # the call got to its end without an error

    def whole(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """All of it, one part after the other."""
        try:
            for slot in self._plans.program.inputs:
                self._send(slot, inputs[slot.name])
            self.start(outputs)
            for name in outputs:
                self.wait(name)
        finally:
            self.end()

    def send(self, name: str, array: Array) -> None:
        """Starts to copy an input to the device, which uses a large one where it is if it can."""
        self._send(next(s for s in self._plans.program.inputs if s.name == name), array)

    def _send(self, slot: Slot, array: Array) -> None:
        self._given[slot.name] = array
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self._sent.append(flat)
        handle = self._adopted(slot, flat, False)
        if handle is None:
            send(self._runner.device, self._runner.places[slot], flat, idle=True)
        else:
            self._read.append(handle)

    def start(self, outputs: Mapping[str, Array]) -> None:
        """Launches the plan of the call's sizes, and then starts to copy its results."""
        runner, device = self._runner, self._runner.device
        slots = {slot.name: slot for slot in self._plans.program.outputs}
        for name, array in outputs.items():
            slot, flat = slots[name], array.reshape(-1).view(np.uint8)
            handle = self._adopted(slot, flat, True)
            if handle is not None:
                self._written[name] = handle
            elif flat.nbytes:
                self._left[name] = slot, flat
        plan = self._plans.of(of_call(self._plans.program, self._given))
        run(plan.before)
        if plan.after:
            runner.torn = True  # until all of it is done
            run(plan.after)
        in_flight = self._free is not None
        done = device.event() if in_flight else None
        for name, (slot, flat) in self._left.items():
            place = runner.places[slot]
            seen = device.view(place, flat.nbytes)
            if seen is None:
                device.copy(flat.data, place, flat.nbytes)
            if done is not None:
                self._arrived[name] = device.event() if seen is None else done
        self._issued = True

    def wait(self, name: str) -> None:
        """Waits for the copy of an output, or for the call's work: the host then copies what it
        sees of the device's memory.
        """
        device = self._runner.device
        if name in self._arrived:
            self._arrived.pop(name)()
        elif not self._idle:
            device.sync()
            self._idle = True
        if name in self._written:
            device.give_back(self._written.pop(name))
        if name in self._left:
            slot, flat = self._left.pop(name)
            seen = device.view(self._runner.places[slot], flat.nbytes)
            if seen is not None:
                flat.data[:] = seen

    def end(self) -> None:
        """Waits for the device; raises the failure that a checked program recorded."""
        runner = self._runner
        try:
            try:
                if not self._idle:
                    runner.device.sync()
            finally:
                for handle in (*self._read, *self._written.values()):
                    runner.device.give_back(handle)
            if self._issued:
                runner.torn = False
                runner.check_record()
        finally:
            if self._free is not None:
                self._free()

    def _adopted(self, slot: Slot, flat: Array, written: bool) -> Any:
        """A handle by which the device uses an array of a call directly, without a copy, or
        None.
        """
        runner = self._runner
        if slot not in runner.lent:
            return None
        taken = flat.nbytes >= LARGE and flat.ctypes.data % runner.assumed == 0
        handle = runner.device.adopt(flat.data, written) if taken else None
        runner.lent[slot] = runner.places[slot] if handle is None else MemoryPlace(handle)
        return handle
