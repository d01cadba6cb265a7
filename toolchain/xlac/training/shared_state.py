"""The compiled programs of training over one state: in the same memory where the backend can, else
handed from the one that ran to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from xlac.api import compile
from xlac.driver import specialized
from xlac.ir.op import Array
from xlac.model import Model
from xlac.runtime.compiled import Compiled
from xlac.training.entries import TrainingEntry, aligned, shared_bytes, slot_of, state_block, states
from xlac_sdk.host.array_values import as_array


class TrainingPrograms:
    """Models over one state by name, each compiled for the sizes of its calls when they come. What
    is kept is in the program that ran last. `options` are those of `xlac.compile`.
    """

    def __init__(self, models: Mapping[str, Model], options: Mapping[str, Any]) -> None:
        self.entries = {name: TrainingEntry.of(model) for name, model in models.items()}
        self._options = options
        self._made: dict[tuple[Any, ...], Compiled] = {}
        self._current: Compiled | None = None  # the program whose state is the newest
        self._waiting: dict[str, Array] = {}  # where none is: what the next takes over
        self._memory: dict[str, Array] = {}  # bytes by tensor, where programs have one memory
        self._bound: dict[Compiled, Array] = {}  # those that have it, each with scratch of its own

    def called(self, kind: str, arrays: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
        """The outputs of a call by name, and its sizes. What no model takes is refused."""
        entry = self.entries[kind]
        given = {n: as_array(arrays[n], None, n) for n in entry.inputs if n in arrays}
        sizes = entry.sizes(given)
        key = (kind, *sizes.values())
        if key not in self._made:
            made = compile(specialized(entry.model, sizes), **self._options)
            assert isinstance(made, Compiled)
            self._made[key] = made
        known = {name for one in self.entries.values() for name in one.inputs}
        given |= {name: arrays[name] for name in arrays.keys() - known}  # the program refuses them
        program = self._made[key]
        self._hand_over(program)
        found = program(**given)
        return (found if isinstance(found, dict) else {program.outputs[0]: found}), sizes

    def begin(self, state: dict[str, Array]) -> None:
        """Goes on from a state; what it does not name becomes zero."""
        self._waiting, self._current, self._bound = state, None, {}

    def tensor(self, name: str) -> Array:
        """A copy of one tensor of the state."""
        if self._current is None:
            return np.array(self._waiting[name])
        slot = slot_of(self._current.program, name)
        part = self._memory.get(name)
        if part is None:
            part = self._current.executable.read_state(slot.offset, slot.offset + slot.nbytes)
        return np.array(part).view(slot.dtype.numpy).reshape(slot.extents({}))

    def write(self, name: str, array: Array) -> None:
        """Sets one tensor of the state, of its type."""
        if self._current is None:
            self._waiting[name] = array
            return
        slot = slot_of(self._current.program, name)
        block = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if name in self._memory:
            self._memory[name][:] = block
        else:
            self._current.executable.write_state(block, slot.offset)

    def _hand_over(self, program: Compiled) -> None:
        """Makes the newest state that of a program: where the backend can, all programs have one and
        the same memory, else it is copied from the one that ran last.
        """
        if program is self._current:
            return
        bind = getattr(program.executable, "bind_state", None)
        if bind is not None:
            if self._current is None:
                self._fill(program)
            if program not in self._bound:
                self._bound[program] = scratch = aligned(program.program.state_bytes)
                parts = [self._memory[s.name] if s.name else scratch[s.offset :] for s in states(program.program)]  # fmt: skip
                bind([part.ctypes.data for part in parts])
        elif self._current is None:
            program.executable.write_state(state_block(program.program, self._waiting))
            self._waiting = {}
        else:
            shared = min(shared_bytes(program), shared_bytes(self._current))
            program.executable.write_state(self._current.executable.read_state(0, shared), 0)
        self._current = program

    def _fill(self, program: Compiled) -> None:
        """Gives the shared memory, which is made once, the state that waits."""
        slots = [slot for slot in states(program.program) if slot.name]
        if not self._memory:
            block = aligned(max((s.offset + s.nbytes for s in slots), default=0))
            self._memory = {s.name: block[s.offset : s.offset + s.nbytes] for s in slots}
        for slot in slots:
            given = self._waiting.get(slot.name)
            flat = 0 if given is None else np.ascontiguousarray(given).reshape(-1).view(np.uint8)
            self._memory[slot.name][:] = flat
        self._waiting = {}
