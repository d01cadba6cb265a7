"""A compiled C file loaded into this process."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xlac_sdk.backend import Array
from xlac_sdk.capi import identifier, weights_file
from xlac_sdk.program import Program
from xlac_sdk.source import Diagnostic, SourceError

ALIGN = 64


class Context(ctypes.Structure):
    """`NAME_context`."""

    _fields_ = [("memory", ctypes.c_void_p), ("weights", ctypes.c_void_p), ("ready", ctypes.c_uint32)]


class Library:
    """An Executable over the C API. A context for each thread; one for all, behind a lock, where there is state."""

    def __init__(self, artifact: Path, program: Program, mapped: bool) -> None:
        self.program = program
        try:
            library = ctypes.CDLL(str(artifact.resolve()))
            prefix = identifier(program.name)
            self._size, self._init, self._run = (getattr(library, f"{prefix}_{f}") for f in ("size", "init", "run"))
        except (OSError, AttributeError) as error:
            problem = f"'{artifact}' cannot be loaded: {error}"
            raise SourceError(Diagnostic("XL5024", problem, hint="build it again")) from None
        self._size.restype = ctypes.c_size_t
        self._weights = _weights(program) if mapped else None
        self._local = threading.local()
        self._lock = threading.Lock()
        self._shared = self._context() if program.state_bytes else None

    def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Reads `inputs`, writes `outputs`, by name."""
        pointers = [inputs[s.name].ctypes.data for s in self.program.inputs]
        pointers += [outputs[s.name].ctypes.data for s in self.program.outputs]
        given = [ctypes.c_void_p(p) for p in pointers]
        if self._shared is not None:
            with self._lock:
                self._check("run", self._run(ctypes.byref(self._shared), *given))
            return
        if not hasattr(self._local, "context"):
            self._local.context = self._context()
        self._check("run", self._run(ctypes.byref(self._local.context), *given))

    def _context(self) -> Context:
        """A ready context; its memory lives as long as it does."""
        context, nbytes = Context(), int(self._size())
        memory = _aligned(nbytes)
        context.block = memory
        given = [ctypes.byref(context), ctypes.c_void_p(memory.ctypes.data), ctypes.c_size_t(nbytes)]
        if self._weights is not None:
            given += [ctypes.c_void_p(self._weights.ctypes.data), ctypes.c_size_t(len(self._weights))]
        self._check("init", self._init(*given))
        return context

    def _check(self, function: str, status: int) -> None:
        if status:
            raise RuntimeError(f"{identifier(self.program.name)}_{function} failed with status {status}")


def _weights(program: Program) -> NDArray[np.uint8]:
    data = b"".join(weights_file(program))
    block = _aligned(len(data))
    block[:] = np.frombuffer(data, np.uint8)
    return block


def _aligned(nbytes: int) -> NDArray[np.uint8]:
    """Bytes of memory that start at a multiple of 64."""
    block = np.zeros(nbytes + ALIGN, np.uint8)
    skip = -block.ctypes.data % ALIGN
    return block[skip : skip + nbytes]
