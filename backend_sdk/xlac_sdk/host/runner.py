"""Runs programs on a device that the host drives: five methods of a `Device` become an
Executable.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Mapping, Sequence

import numpy as np

from xlac_sdk.backend import Device
from xlac_sdk.dims import evaluate
from xlac_sdk.dtypes import Array
from xlac_sdk.host import stopping
from xlac_sdk.lowering.stop_checks import changes_state
from xlac_sdk.programs.program import (
    Argument,
    Branch,
    Call,
    Choice,
    Copy,
    Launch,
    Program,
    Repeat,
    Role,
    Slot,
    Stamp,
    Step,
    While,
)
from xlac_sdk.programs.sizes import of_call

ALIGN = 256  # bytes: what `Device.alloc` promises, and so what every slot of a block may rely on
Counters = Mapping[str, int]  # of the loops around a step, and the sizes of the call, by name


class Runner:
    """A program on a device: weights are there from the start, the arena and the caller's arrays
    have their place.

    Calls from several threads take turns, as a device's queue would have it. Device memory is given
    back by `close`, when the runner is collected, and when loading it fails.
    """

    def __init__(self, device: Device, program: Program) -> None:
        self.device, self.program = device, program
        self._addresses: list[int] = []
        self._torn = False  # a call ended when it had changed a part of the state
        self._lock = threading.Lock()
        self._free = weakref.finalize(self, _free, device, self._addresses)
        try:
            self._places = self._place()
        except BaseException:
            self._free()
            raise

    def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Reads `inputs`, writes `outputs`, by name."""
        with self._lock:
            if not self._free.alive:
                raise RuntimeError(f"the program '{self.program.name}' is closed")
            if self._torn:
                raise stopping.torn()
            for slot in self.program.inputs:
                self._upload(slot, inputs[slot.name])
            counters = of_call(self.program, inputs)
            for step in self.program.steps:
                self._torn |= changes_state(step)  # until all of it is done
                self._steps((step,), counters)
            self.device.sync()
            self._torn = False
            for slot in self.program.outputs:
                array = outputs[slot.name].reshape(-1).view(np.uint8)
                if array.nbytes:
                    self.device.copy(array.data, self._places[slot], array.nbytes)
            self.device.sync()

    def reset(self) -> None:
        """Sets the state to zero."""
        with self._lock:
            if not self._free.alive:
                raise RuntimeError(f"the program '{self.program.name}' is closed")
            self._clear()
            self._torn = False

    def read_state(self, start: int = 0, stop: int | None = None) -> Array:
        """Bytes of the state block, copied from the device."""
        with self._lock:
            end = self.program.state_bytes if stop is None else stop
            block = np.zeros(end - start, np.uint8)
            if block.nbytes:
                self.device.copy(block.data, self._state + start, block.nbytes)
                self.device.sync()
            return block

    def write_state(self, block: Array, start: int = 0) -> None:
        """Writes bytes of the state block."""
        with self._lock:
            part = np.ascontiguousarray(block)
            if part.nbytes:
                self.device.copy(self._state + start, part.data, part.nbytes)
                self.device.sync()
            self._torn &= part.nbytes < self.program.state_bytes

    def close(self) -> None:
        """Gives the device's memory back; a second time does nothing."""
        with self._lock:
            self._free()

    # ---- memory ------------------------------------------------------------------------------

    def _alloc(self, nbytes: int) -> int:
        address = self.device.alloc(max(nbytes, 1))
        self._addresses.append(address)
        return address

    def _place(self) -> dict[Slot, int]:
        program = self.program
        arena, state = self._alloc(program.arena_bytes), self._alloc(program.state_bytes)
        self._state = state
        self._clear()
        places = {}
        own = [s for s in program.slots if s.role not in (Role.TEMPORARY, Role.STATE)]
        starts, end = [], 0
        for slot in own:
            starts.append(end)
            end += -(-slot.nbytes // ALIGN) * ALIGN
        block = self._alloc(end)
        for slot, start in zip(own, starts, strict=True):
            places[slot] = block + start
        for slot in program.slots:
            if slot.role in (Role.TEMPORARY, Role.STATE):
                places[slot] = (arena if slot.role is Role.TEMPORARY else state) + slot.offset
        self._places = places
        for slot in own:
            if slot.role is Role.CONSTANT:
                self._upload(slot, program.constants[slot.symbol])
        self.device.sync()
        return places

    def _clear(self) -> None:
        """Makes the state zero."""
        if self.program.state_bytes:
            zeros = np.zeros(self.program.state_bytes, np.uint8)
            self.device.copy(self._state, zeros.data, zeros.nbytes)
            self.device.sync()

    def _upload(self, slot: Slot, array: Array) -> None:
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if flat.nbytes:
            self.device.copy(self._places[slot], flat.data, flat.nbytes)

    def _address(self, argument: Argument, counters: Counters) -> int:
        moved = evaluate(argument.offset, counters)
        moved += sum(
            counters[name] * evaluate(stride, counters) for name, stride in argument.strides
        )
        return self._places[argument.slot] + moved * argument.slot.dtype.nbytes

    def _read(self, argument: Argument, counters: Counters) -> int:
        """One number from the device, waiting for it."""
        dtype = argument.slot.dtype
        value = np.zeros(dtype.nbytes, np.uint8)
        self.device.copy(value.data, self._address(argument, counters), dtype.nbytes)
        self.device.sync()
        return int(value.view(dtype.numpy)[0])

    def _stamp(self, step: Stamp, counters: Counters) -> None:
        """The host's clock, in nanoseconds, when everything before is done."""
        self.device.sync()
        now, start = time.perf_counter_ns(), self._address(step.log, counters)
        count = 0 if step.code == 0 else self._read(step.log, counters)
        room = step.log.slot.size - evaluate(step.log.offset, counters) - step.parts
        if step.parts and not step.code:
            self.device.copy(start + 8 * room, np.zeros(1, np.int64).view(np.uint8).data, 8)
        if 3 + 2 * count <= room:
            for place, value in ((1 + 2 * count, step.code), (2 + 2 * count, now), (0, count + 1)):
                self.device.copy(
                    start + 8 * place, np.asarray([value], np.int64).view(np.uint8).data, 8
                )
            self.device.sync()

    # ---- steps -------------------------------------------------------------------------------

    def _steps(self, steps: Sequence[Step], counters: Counters) -> None:
        for step in steps:
            stopping.check()
            match step:
                case Launch(kernel=kernel, arguments=arguments, sizes=sizes):
                    given = tuple(evaluate(size, counters) for size in sizes)
                    self.device.launch(
                        kernel, tuple(self._address(a, counters) for a in arguments), given
                    )
                case Copy(target=target, source=source, count=count):
                    nbytes = evaluate(count, counters) * source.slot.dtype.nbytes
                    if nbytes:
                        self.device.copy(
                            self._address(target, counters), self._address(source, counters), nbytes
                        )
                case Repeat(counter=counter, count=count, body=body):
                    for number in range(evaluate(count, counters)):
                        self._steps(body, {**counters, counter: number})
                case While(condition=condition, flag=flag, body=body):
                    self._steps(condition, counters)
                    while self._read(flag, counters):
                        self._steps(body, counters)
                        self._steps(condition, counters)
                case Branch(index=index, branches=branches):
                    number = self._read(index, counters)
                    self._steps(branches[number if 0 <= number < len(branches) else -1], counters)
                case Choice():
                    self._steps(step.path(counters), counters)
                case Stamp():
                    self._stamp(step, counters)
                case Call(arguments=arguments):
                    self.device.call(
                        step.at(counters), tuple(self._address(a, counters) for a in arguments)
                    )


def _free(device: Device, addresses: list[int]) -> None:
    while addresses:
        device.free(addresses.pop())
