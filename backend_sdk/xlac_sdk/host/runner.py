"""Runs programs on a device driven by the host: turns the methods of a `Device` into an
Executable.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from xlac_sdk.backend import CallInFlight
from xlac_sdk.device import Device, MemoryPlace
from xlac_sdk.dtypes import Array
from xlac_sdk.host import stopping
from xlac_sdk.host.calls.runner_call import LARGE, RunnerCall
from xlac_sdk.host.device_memory import fetch, send
from xlac_sdk.host.entry_calls import no_length, not_finite
from xlac_sdk.host.plan import LaunchPlanner, LaunchPlans, run
from xlac_sdk.host.records import WORDS, failure
from xlac_sdk.programs.entries import Entry, parts
from xlac_sdk.programs.program import RECORD, Program, Role, Slot


class Runner:
    """A program on a device: weights are uploaded once; the arena and the caller's arrays have
    fixed places, which the program's entries share.

    Calls from several threads are serialized, like a device's queue. Device memory is freed by
    `close`, when the runner is collected, and when loading fails.
    """

    def __init__(self, device: Device, program: Program) -> None:
        self.device, self.program = device, program
        self._handles: list[Any] = []
        # bytes of which kernels assume that their buffers begin at multiples
        self.assumed = max((b.align for k in program.kernels for b in k.parameters), default=1)
        self.torn = False  # a call failed after it had changed a part of the state
        self._lock = threading.Lock()
        self._free = weakref.finalize(self, _free, device, self._handles)
        try:
            self.places = self._place()
            # the places of a call's arrays that the device uses directly
            self.lent = {slot: self.places[slot] for slot in _lent(program)}
            planner = LaunchPlanner(device, self.places, self.lent)
            self._plans = LaunchPlans(replace(program, entries=None), planner)
            self._entered, self._first = self._entries(planner)
            self._clear()
        except BaseException:
            self._free()
            raise

    def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Reads `inputs`, writes `outputs`, by name."""
        with self._lock:
            self.check_usable()
            RunnerCall(self, self._plans).whole(inputs, outputs)

    def enter(self, entry: str, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """`run` for an entry of the program."""
        what, plans = self._entered[entry]
        with self._lock:
            self.check_usable()
            if what.needs is not None and not self._read(what.needs).any():
                raise no_length()
            RunnerCall(self, plans).whole(inputs, outputs)
            if what.succeeded is not None and not self._read(what.succeeded).any():
                raise not_finite()

    def begin(self) -> CallInFlight:
        """A call in parts; those before it have ended. Others wait until it has, too."""
        self._lock.acquire()
        try:
            self.check_usable()
        except BaseException:
            self._lock.release()
            raise
        return RunnerCall(self, self._plans, self._lock.release)

    def host_memory(self, nbytes: int) -> Array | None:
        """None: the driver copies any memory."""
        return None

    def check_usable(self) -> None:
        """Raises RuntimeError for a closed program, SourceError for an inconsistent state."""
        if not self._free.alive:
            raise RuntimeError(f"the program '{self.program.name}' is closed")
        if self.torn:
            raise stopping.torn()

    def check_record(self) -> None:
        """Raises SourceError for the check that failed in the last call of a checked program."""
        if (record := self.program.facts.get(RECORD)) is not None:
            place = self._arena.plus(record["offset"])
            check, position, value, _ = self._bytes(place, 8 * WORDS).view(np.int64)
            if check:
                raise failure(record["texts"][check - 1], int(position), int(value))

    def reset(self) -> None:
        """Resets the state to its initial contents."""
        with self._lock:
            if not self._free.alive:
                raise RuntimeError(f"the program '{self.program.name}' is closed")
            self._clear()
            self.torn = False

    def read_state(self, start: int = 0, stop: int | None = None) -> Array:
        """Bytes of the state block, copied from the device."""
        with self._lock:
            end = self.program.state_bytes if stop is None else stop
            return self._bytes(self._state.plus(start), end - start)

    def write_state(self, block: Array, start: int = 0) -> None:
        """Writes bytes of the state block."""
        with self._lock:
            part = _flat(block)
            send(self.device, self._state.plus(start), part)
            self.device.sync()
            self.torn &= part.nbytes < self.program.state_bytes

    def close(self) -> None:
        """Frees the device's memory; a second call does nothing."""
        with self._lock:
            self._free()

    # ---- memory ------------------------------------------------------------------------------

    def _alloc(self, nbytes: int) -> MemoryPlace:
        handle = self.device.alloc(max(nbytes, 1))
        self._handles.append(handle)
        return MemoryPlace(handle)

    def _place(self) -> dict[Slot, MemoryPlace]:
        program = self.program
        arena, state = self._alloc(program.arena_bytes), self._alloc(program.state_bytes)
        self._arena, self._state = arena, state
        places = {}
        own = [s for s in program.slots if s.role not in (Role.TEMPORARY, Role.STATE)]
        starts, end = [], 0
        for slot in own:
            align = max(self.device.alignment, slot.align)
            starts.append(start := -(-end // align) * align)
            end = start + slot.nbytes
        block = self._alloc(end)
        for slot, start in zip(own, starts, strict=True):
            places[slot] = block.plus(start)
        for slot in program.slots:
            if slot.role in (Role.TEMPORARY, Role.STATE):
                places[slot] = (arena if slot.role is Role.TEMPORARY else state).plus(slot.offset)
        self.places = places
        for slot in own:
            if slot.role is Role.CONSTANT:
                flat = _flat(program.constants[slot.symbol])
                self._upload(slot, flat)
                self.device.sync()
        return places

    def _entries(
        self, planner: LaunchPlanner
    ) -> tuple[dict[str, tuple[Entry, LaunchPlans]], LaunchPlans | None]:
        """The entries by name, with their plans; and those of the steps that initialize the
        state.
        """
        if self.program.entries is None:
            return {}, None
        *others, first = parts(self.program)
        pairs = zip(self.program.entries.entries, others, strict=True)
        return {
            entry.name: (entry, LaunchPlans(part, planner)) for entry, part in pairs
        }, LaunchPlans(replace(first, sizes=()), planner)

    def _clear(self) -> None:
        """Sets the state to its initial contents."""
        if self.program.state_bytes:
            send(self.device, self._state, np.zeros(self.program.state_bytes, np.uint8))
            self.device.sync()
        if self._first is not None:
            plan = self._first.of({})
            run((*plan.before, *plan.after))
            self.device.sync()

    def _read(self, slot: Slot) -> Array:
        """The bytes of a slot, after all earlier work."""
        return self._bytes(self.places[slot], slot.nbytes)

    def _bytes(self, place: MemoryPlace, nbytes: int) -> Array:
        """Bytes copied from the device, after all earlier work."""
        block = np.zeros(nbytes, np.uint8)
        if nbytes:
            fetch(self.device, block, place)
            self.device.sync()
        return block

    def _upload(self, slot: Slot, flat: Array) -> None:
        """Starts to copy a slot's contents, which must stay alive until the next sync."""
        send(self.device, self.places[slot], flat)


def _flat(array: Array) -> Array:
    """An array's bytes."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _lent(program: Program) -> list[Slot]:
    """Inputs and outputs so large that copying them costs more than resolving launch arguments in
    every call.
    """
    ends = dict.fromkeys((*program.inputs, *program.outputs))
    for part in parts(program):
        ends |= dict.fromkeys((*part.inputs, *part.outputs))
    return [slot for slot in ends if slot.nbytes >= LARGE]


def _free(device: Device, handles: list[Any]) -> None:
    while handles:
        device.free(handles.pop())
