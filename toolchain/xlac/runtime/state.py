"""The state of a model that has several programs, shared between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Lock

from xlac.runtime.compiled import Compiled
from xlac_sdk.programs.program import Program, Role, Slot


class SharedState:
    """Each program has its own memory for the state; before a call it is copied from the program
    called last. Thread-safe: calls are serialized.
    """

    def __init__(self) -> None:
        self._last: Compiled | None = None
        self._lock = Lock()

    @contextmanager
    def of(self, program: Compiled) -> Iterator[None]:
        """Holds the state while a program is called."""
        with self._lock:
            if self._last is not None and self._last is not program:
                _hand_over(self._last, program)
            self._last = program
            yield

    def reset(self, programs: Iterable[Compiled]) -> None:
        """Sets the state of these programs, and of the one called last, to zero."""
        with self._lock:
            for program in programs:
                program.reset()
            if self._last is not None:
                self._last.reset()


def _hand_over(last: Compiled, program: Compiled) -> None:
    """Copies the values that both programs have; those of open sizes belong to one program."""
    held = _values(last.program)
    for name, slot in _values(program.program).items():
        if name in held and (held[name].dtype, held[name].shape) == (slot.dtype, slot.shape):
            start = held[name].offset
            block = last.executable.read_state(start, start + slot.nbytes)
            program.executable.write_state(block, slot.offset)


def _values(program: Program) -> dict[str, Slot]:
    """The slots of the model's state by name, where sizes are known; slots without names belong to
    kernels.
    """
    return {
        slot.name: slot
        for slot in program.slots
        if slot.role is Role.STATE
        and slot.name
        and all(isinstance(size, int) for size in slot.shape)
    }
