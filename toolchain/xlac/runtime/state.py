"""The state of a model that has several programs: the model's, whatever program runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Lock

from xlac.runtime.compiled import Compiled
from xlac_sdk.programs.program import Program, Role, Slot


class SharedState:
    """Each program has memory for the state; the one that is called takes over what the last one
    left. Thread-safe: calls come one after the other.
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
        """Sets the state of these programs, and of the last one, to zero."""
        with self._lock:
            for program in programs:
                program.reset()
            if self._last is not None:
                self._last.reset()


def _hand_over(last: Compiled, program: Compiled) -> None:
    """Copies the values that are alike in both: those of open sizes are each program's own."""
    held = _values(last.program)
    for name, slot in _values(program.program).items():
        if name in held and (held[name].dtype, held[name].shape) == (slot.dtype, slot.shape):
            start = held[name].offset
            block = last.executable.read_state(start, start + slot.nbytes)
            program.executable.write_state(block, slot.offset)


def _values(program: Program) -> dict[str, Slot]:
    """The slots of the model's state by name, those of a known size; memory that only one program
    needs has no name.
    """
    return {
        slot.name: slot
        for slot in program.slots
        if slot.role is Role.STATE
        and slot.name
        and all(isinstance(size, int) for size in slot.shape)
    }
