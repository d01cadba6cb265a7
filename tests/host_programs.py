"""Programs on a device whose host runs the C that the SDK writes of their launch plans."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xlac_sdk.dtypes import Array
from xlac_sdk.host.capi.names import identifier
from xlac_sdk.host.shared_library import SharedLibrary
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.sizes import of_call

# the macro is one that the file defines, unless the compiler was given it
WARNINGS = ("-std=c99", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wno-type-limits")


class HostProgram:
    """An Executable over `NAME.c`: compiled, opened on device 0, and called by ctypes.

    Calls from several threads take turns, as a context is used by one thread at a time: `NAME.h`
    says so.
    """

    def __init__(
        self,
        files: Mapping[str, str],
        program: Program,
        links: Sequence[str],
        weights: bytes | None = None,
    ) -> None:
        self.program, self.name = program, identifier(program.name)
        self.context, self._turn = ctypes.c_void_p(), threading.Lock()
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                (Path(folder) / name).write_text(text, encoding="utf-8")
            command = ["cc", "-O1", *WARNINGS, "-fPIC", "-shared", f"{self.name}.c"]
            command += ["-o", "host.so", *links]
            done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True)
            assert not done.returncode, done.stderr[:4000]
            self.library = SharedLibrary(str(Path(folder) / "host.so"))
        given = [] if weights is None else [weights, ctypes.c_size_t(len(weights))]
        self.opened = self.call("open", ctypes.byref(self.context), 0, *given)

    def call(self, function: str, *given: Any) -> int:
        """A function's status."""
        return int(self.library[f"{self.name}_{function}"](*given))

    def text(self, function: str, given: Any) -> str:
        """What a function says."""
        says = self.library[f"{self.name}_{function}"]
        says.restype = ctypes.c_char_p
        return str(says(given).decode())

    def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Reads `inputs`, writes `outputs`, by name."""
        sizes = of_call(self.program, inputs)
        given: list[Any] = [(ctypes.c_int64 * len(sizes))(*sizes.values())] if sizes else []
        arrays = [np.ascontiguousarray(inputs[slot.name]) for slot in self.program.inputs]
        arrays += [outputs[slot.name] for slot in self.program.outputs]
        given += [ctypes.c_void_p(array.ctypes.data) for array in arrays]
        with self._turn:
            status = self.opened or self.call("run", self.context, *given)
            told = self.text("message", self.context) if status else ""
        assert not status, (self.text("status_text", status), told)

    def reset(self) -> None:
        """Sets the state to zero."""
        with self._turn:
            assert not self.call("reset", self.context)

    def read_state(self, start: int = 0, stop: int | None = None) -> Array:
        """Not part of the C interface."""
        raise NotImplementedError

    def write_state(self, block: Array, start: int = 0) -> None:
        """Not part of the C interface."""
        raise NotImplementedError

    def close(self) -> None:
        """Closes the context, as the collector does."""
        if self.context:
            self.call("close", self.context)
        self.context = ctypes.c_void_p()

    def __del__(self) -> None:
        self.close()


class Opened:
    """A context of `NAME.so`, in which statuses are returned."""

    def __init__(self, folder: Path, name: str) -> None:
        self.library, self.name = SharedLibrary(str(folder / f"{name}.so")), name
        self.context = ctypes.c_void_p()
        assert self("open", ctypes.byref(self.context), 0) == 0

    def __call__(self, function: str, *given: Any) -> int:
        return int(self.library[f"{self.name}_{function}"](*given))

    def call(self, function: str, *arrays: Any, size: int = 3) -> int:
        """A call of one size."""
        given = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
        return self(function, self.context, (ctypes.c_int64 * 1)(size), *given)
