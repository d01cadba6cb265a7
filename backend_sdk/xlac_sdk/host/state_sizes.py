"""The open sizes of a program's state, which are fixed while it holds values, as they determine its
layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

from xlac_sdk.dims import symbols
from xlac_sdk.host.array_values import wrong
from xlac_sdk.programs.program import Program, Role

FACT = "state_sizes"
"""The key of a program's facts with the sizes of its state, where it has no slots for that: one
that was read from a manifest.
"""


def sizes_of_state(program: Program) -> dict[str, str]:
    """The open sizes that a program's state depends on, each with the name of such a state."""
    known: Mapping[str, str] | None = program.facts.get(FACT)
    if known is not None:
        return dict(known)
    return {
        symbol.name: slot.name
        for slot in program.slots
        if slot.role is Role.STATE
        for extent in slot.shape
        for symbol in symbols(extent)
    }


class StateSizes:
    """The open sizes that the state of a program depends on, and their values in the first call
    since the last reset. Thread-safe.
    """

    def __init__(self, program: Program) -> None:
        self._whose = sizes_of_state(program)
        self._held: dict[str, int] = {}
        self._lock = Lock()

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raises SourceError for a call with other sizes than those of the present state."""
        if not self._whose:
            return
        with self._lock:
            for name, state in self._whose.items():
                held = self._held.setdefault(name, sizes[name])
                if held != sizes[name]:
                    problem = (
                        f"state '{state}' was made with {name}={held}, and this call has "
                        f"{name}={sizes[name]}"
                    )
                    hint = "reset() the model before a call of another size, or keep a model a size"
                    raise wrong("XL6003", problem, hint)

    @property
    def held(self) -> dict[str, int]:
        """The sizes of the present state, by name."""
        with self._lock:
            return dict(self._held)

    def restore(self, held: Mapping[str, int]) -> None:
        """The state is one of these sizes."""
        with self._lock:
            self._held = dict(held)

    def reset(self) -> None:
        """The state is zero again, and may get any sizes."""
        with self._lock:
            self._held.clear()
