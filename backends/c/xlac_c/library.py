"""A compiled C file loaded into this process."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping
from pathlib import Path

from xlac_c.source import aligned, model, weights
from xlac_sdk.backend import Array
from xlac_sdk.program import Program
from xlac_sdk.source import Diagnostic, SourceError


class Library:
    """An Executable over `NAME_run`. Each thread has an arena of its own; state is guarded by a lock."""

    def __init__(self, artifact: Path, program: Program) -> None:
        self.program = program
        self._model = model(program)
        try:
            self._run = getattr(ctypes.CDLL(str(artifact.resolve())), f"{self._model.name}_run")
        except (OSError, AttributeError) as error:
            problem = f"'{artifact}' cannot be loaded: {error}"
            raise SourceError(Diagnostic("XL5024", problem, hint="build it again")) from None
        self._weights = weights(program) if self._model.weights_bytes else None
        self._state = aligned(program.state_bytes) if program.state_bytes else None
        self._local = threading.local()
        self._lock = threading.Lock()

    def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Reads `inputs`, writes `outputs`, by name."""
        pointers = [inputs[s.name].ctypes.data for s in self.program.inputs]
        pointers += [outputs[s.name].ctypes.data for s in self.program.outputs]
        for block in (self._weights, self._state):
            if block is not None:
                pointers.append(block.ctypes.data)
        if not hasattr(self._local, "arena"):
            self._local.arena = aligned(self.program.arena_bytes)
        pointers.append(self._local.arena.ctypes.data)
        given = [ctypes.c_void_p(p) for p in pointers]
        if self._state is None:
            status = self._run(*given)
        else:
            with self._lock:
                status = self._run(*given)
        if status:
            raise RuntimeError(f"{self._model.name}_run failed with status {status}")
