"""The compiled programs of training over one state: in shared memory where the backend can bind it,
else copied from one program to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

import numpy as np

from xlac.api import compile
from xlac.driver import specialized
from xlac.ir.op import Array
from xlac.ir.storage import give_back
from xlac.memory.limit import MemoryLimit
from xlac.model import Model
from xlac.runtime.compiled import Compiled
from xlac.training.entries import (
    ALIGNMENT,
    TrainingEntry,
    aligned,
    shared_bytes,
    slot_of,
    state_block,
    states,
)
from xlac.training.reports.memory_report import within
from xlac_sdk.host.array_values import as_array
from xlac_sdk.host.ranks.communicator import Communicator

WITHOUT_STEPS = ("evaluate", "run", "evaluate_ema", "run_ema")


class TrainingPrograms:
    """Models over one state, by name, each compiled for the sizes of a call when these first occur.
    The newest state is in the program that ran last. `options` are those of `xlac.compile`; `tell`
    is told what a limit on memory costs steps, when the first is compiled.
    """

    def __init__(
        self,
        models: Mapping[str, Model],
        options: Mapping[str, Any],
        tell: Callable[[str], object] | None = None,
    ) -> None:
        self.entries = {name: TrainingEntry.of(model) for name, model in models.items()}
        self._options, self._tell = options, tell
        self._limit = MemoryLimit.of(options.get("max_memory"))
        self._compiled: dict[tuple[Any, ...], Compiled] = {}  # by model and sizes
        self._current: Compiled | None = None  # the program that ran last: its state is the newest
        self._pending: dict[str, Array] = {}  # before any has run: the state to begin with
        self._memory: dict[str, Array] = {}  # shared memory, if any: bytes by tensor
        self._bound: dict[Compiled, Array] = {}  # programs bound to it, with their scratch memory

    @property
    def here(self) -> Communicator | None:
        """The ranks of programs on a mesh."""
        return None

    def calls(
        self, needed: Iterable[tuple[str, Mapping[str, Any]]]
    ) -> Iterator[tuple[dict[str, Any], dict[str, int]]]:
        """Calls models in order, each as `called`: the micro-batches of a step, or of an
        evaluation.
        """
        for kind, arrays in needed:
            yield self.called(kind, arrays)

    def called(self, kind: str, arrays: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
        """Calls a model: its outputs by name, and its open sizes. `arrays` may hold inputs of other
        models, which are ignored. Raises SourceError for unknown inputs and wrong shapes or dtypes.
        """
        entry = self.entries[kind]
        given = {n: as_array(arrays[n], None, n) for n in entry.inputs if n in arrays}
        sizes = entry.sizes(given)
        key = (kind, *sizes.values())
        if key not in self._compiled:
            compiled = self._made(kind, sizes)
            if not any(one[0] == kind for one in self._compiled):
                self._tell_memory(kind, compiled)
            self._compiled[key] = compiled
        known = {name for one in self.entries.values() for name in one.inputs}
        given |= {name: arrays[name] for name in arrays.keys() - known}  # the program refuses them
        program = self._compiled[key]
        self._make_current(program)
        return self._run(program, given), sizes

    def _made(self, kind: str, sizes: Mapping[str, int]) -> Compiled:
        """The program of a model for open sizes."""
        compiled = compile(specialized(self.entries[kind].model, sizes), **self._options)
        assert isinstance(compiled, Compiled)
        return compiled

    def _run(self, program: Compiled, given: Mapping[str, Any]) -> dict[str, Any]:
        """Calls a program: its outputs by name."""
        returned = program(**given)
        return returned if isinstance(returned, dict) else {program.outputs[0]: returned}

    def _tell_memory(self, kind: str, compiled: Compiled) -> None:
        if self._tell is not None and self._limit is not None and kind not in WITHOUT_STEPS:
            self._tell(within(compiled.program, self._limit))

    def begin(self, state: dict[str, Array]) -> None:
        """Sets the whole state, arrays by tensor; tensors that it does not name become zero."""
        self._pending, self._current, self._bound = state, None, {}

    def tensor(self, name: str) -> Array:
        """A copy of one tensor of the state."""
        if self._current is None:
            return np.array(self._pending[name])
        slot = slot_of(self._current.program, name)
        part = self._memory.get(name)
        if part is None:
            part = self._current.executable.read_state(slot.offset, slot.offset + slot.nbytes)
        return np.array(part).view(slot.dtype.numpy).reshape(slot.extents({}))

    def write(self, name: str, array: Array) -> None:
        """Sets one tensor of the state to an array of its shape and dtype."""
        if self._current is None:
            self._pending[name] = array
            return
        slot = slot_of(self._current.program, name)
        block = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if name in self._memory:
            self._memory[name][:] = block
        else:
            self._current.executable.write_state(block, slot.offset)

    def _make_current(self, program: Compiled) -> None:
        """Gives a program the newest state: by binding the shared memory where the backend has
        `bind_state`, else by a copy from the program that ran last.
        """
        if program is self._current:
            return
        bind = getattr(program.executable, "bind_state", None)
        if bind is not None:
            if self._current is None:
                self._fill(program)
            if program not in self._bound:
                self._bound[program], parts = self._places(program)
                bind([part.ctypes.data for part in parts])
                give_back()  # what compiling it freed
        elif self._current is None:
            program.executable.write_state(state_block(program.program, self._pending))
            self._pending = {}
        else:
            shared = min(shared_bytes(program), shared_bytes(self._current))
            program.executable.write_state(self._current.executable.read_state(0, shared), 0)
        self._current = program

    def _places(self, program: Compiled) -> tuple[Array, list[Array]]:
        """Scratch memory for the states without a name, and where each state of a program is."""
        slots = states(program.program)
        sizes = [0 if slot.name else -(-slot.nbytes // ALIGNMENT) * ALIGNMENT for slot in slots]
        scratch = aligned(sum(sizes))
        starts = accumulate(sizes, initial=0)
        return scratch, [
            self._memory[slot.name] if slot.name else scratch[start:]
            for slot, start in zip(slots, starts, strict=False)
        ]

    def _fill(self, program: Compiled) -> None:
        """Fills the shared memory, allocated on first use, with the pending state."""
        slots = [slot for slot in states(program.program) if slot.name]
        if not self._memory:
            block = aligned(max((s.offset + s.nbytes for s in slots), default=0))
            self._memory = {s.name: block[s.offset : s.offset + s.nbytes] for s in slots}
        for slot in slots:
            given = self._pending.pop(slot.name, None)  # whose memory is needed no longer
            flat = 0 if given is None else np.ascontiguousarray(given).reshape(-1).view(np.uint8)
            self._memory[slot.name][:] = flat
        self._pending = {}
