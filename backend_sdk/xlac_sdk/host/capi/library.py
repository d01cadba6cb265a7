"""A shared library with the C API, called from Python."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlac_sdk.dtypes import Array
from xlac_sdk.host import mapped, stopping
from xlac_sdk.host.capi.api import MANY
from xlac_sdk.host.capi.names import identifier
from xlac_sdk.host.capi.status import EntryStatus, Status
from xlac_sdk.host.entry_calls import no_length, not_finite
from xlac_sdk.host.records import failure
from xlac_sdk.host.shared_library import SharedLibrary
from xlac_sdk.host.state_sizes import sizes_of_state
from xlac_sdk.host.stopping import may_run_long
from xlac_sdk.programs.constants import WeightsOrigin
from xlac_sdk.programs.entries import of_entry
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.sizes import of_call
from xlac_sdk.source import Diagnostic, SourceError

ALIGN = 64
WAIT = 0.05  # seconds between checks of a running call's time limit
Bytes = NDArray[np.uint8]
Function = Callable[..., int]  # a function of the library, which returns a status


class ContextStruct(ctypes.Structure):
    """`NAME_context`, and the memory it points to."""

    _fields_ = [
        ("memory", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("ready", ctypes.c_uint32),
        ("stop", ctypes.c_uint32),
        ("memory_bytes", ctypes.c_size_t),
    ]
    block: Bytes


@cache
def context_struct(held: int) -> type[ContextStruct]:
    """The context of a program whose state has this number of open sizes."""
    if not held:
        return ContextStruct
    sizes = {"_fields_": [("state_sizes", ctypes.c_int64 * held)]}
    return type(f"ContextStruct{held}", (ContextStruct,), sizes)


class Library:
    """An Executable over the C API. Contexts are pooled and lent to calls; a program with state has
    a single one, protected by a lock.

    `weights` is the file of weights in memory, at a multiple of 64 bytes, or None when they are
    inside. Raises SourceError for a file that is not such a library, or weights that it rejects.
    """

    def __init__(self, file: Path, program: Program, weights: Bytes | None = None) -> None:
        self.program = program
        self._weights, self._held = weights, len(sizes_of_state(program))
        self._mapped = () if weights is None else mapped.files_of([weights])
        self._prefix = identifier(program.name)
        try:
            library = SharedLibrary(str(file.resolve()))
            names = ("size", "init", "run", "reset", "status_text")
            self._size, self._init, self._run, self._reset, self._text = (
                library[f"{self._prefix}_{f}"] for f in names
            )
            self._functions = {
                entry.name: (library[f"{self._prefix}_{entry.name}"], of_entry(program, entry))
                for entry in (program.entries.entries if program.entries is not None else ())
            }
            # variants of functions with more arrays than ctypes can pass
            self._tables = {
                name: library.function(f"{self._prefix}_{name}_table")
                for name in ("run", *self._functions)
            }
            # absent in libraries of xlac 1 and 2
            self._stop = library.function(f"{self._prefix}_stop")
        except (OSError, AttributeError) as error:
            problem = f"'{file.name}' cannot be loaded: {error}"
            raise SourceError(Diagnostic("XL5024", problem, hint="build it again")) from None
        self._size.restype, self._text.restype = ctypes.c_size_t, ctypes.c_char_p
        # only checked programs have one
        self._failure = library.function(f"{self._prefix}_failure")
        if self._failure is not None:
            self._failure.restype = ctypes.c_char_p
        self._long = self._stop is not None and may_run_long(program)
        self._free: list[ContextStruct] = [self._context()]
        self._turn = threading.Lock() if program.state_bytes else None

    def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Reads `inputs`, writes `outputs`, by name."""
        self._enter("run", self._run, self.program, inputs, outputs)

    def enter(self, entry: str, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """`run` for an entry of the program."""
        function, program = self._functions[entry]
        self._enter(entry, function, program, inputs, outputs)

    def _enter(
        self,
        name: str,
        function: Function,
        program: Program,
        inputs: Mapping[str, Array],
        outputs: Mapping[str, Array],
    ) -> None:
        mapped.check(self._mapped)
        arrays = [
            *(inputs[s.name] for s in program.inputs),
            *(outputs[s.name] for s in program.outputs),
        ]
        addresses = [array.__array_interface__["data"][0] for array in arrays]
        given: list[Any]
        if len(addresses) > MANY:
            function = self._tables[name] or function
            given = [(ctypes.c_void_p * len(addresses))(*addresses)]
        else:
            given = list(map(ctypes.c_void_p, addresses))
        if program.sizes:
            given.insert(0, ctypes.byref(self._sizes(of_call(program, inputs))))
        with self._turn or nullcontext():
            self._call(function, given)

    def reset(self) -> None:
        """Resets the state to its initial contents."""
        if self._turn is not None:
            with self._turn:
                for context in self._free:
                    self._check("reset", self._reset(ctypes.byref(context)))

    def read_state(self, start: int = 0, stop: int | None = None) -> Array:
        """Bytes of the state block, which is at the start of a context's memory."""
        with self._turn or nullcontext():
            return self._free[0].block[: self.program.state_bytes][start:stop].copy()

    def write_state(self, block: Array, start: int = 0) -> None:
        """Writes bytes of the state block."""
        with self._turn or nullcontext():
            (context,) = self._free
            context.block[: self.program.state_bytes][start : start + len(block)] = block
            for number in range(self._held):  # what is written may be of other sizes
                context.state_sizes[number] = -1

    def _call(self, function: Function, given: list[Any]) -> None:
        try:
            context = self._free.pop()
        except IndexError:
            context = self._context()
        status = (
            self._watched(context, function, given)
            if self._long
            else function(ctypes.byref(context), *given)
        )
        if status == Status.CHECK_FAILED.number:
            failed = self._failed(context)
            self._free.append(context)
            raise failed
        self._free.append(context)
        if status == Status.STOPPED.number:
            raise stopping.torn()
        if status == EntryStatus.NOT_FINITE.number:
            raise not_finite()
        if status == EntryStatus.NO_LENGTH.number:
            raise no_length()
        self._check("run", status)

    def _watched(self, context: ContextStruct, function: Function, given: list[Any]) -> int:
        """A run in a separate thread, so that this one can be interrupted, which then stops the
        run.
        """
        statuses: list[int] = []
        done = threading.Event()

        def run() -> None:
            statuses.append(function(ctypes.byref(context), *given))
            done.set()

        threading.Thread(target=run, name=f"{self._prefix}_run", daemon=True).start()
        try:
            while not done.wait(WAIT):
                stopping.check()
        except BaseException:
            assert self._stop is not None
            self._stop(ctypes.byref(context))
            done.wait()
            context.stop = 0  # the run ended before it saw the request
            self._free.append(context)
            raise
        return statuses[0]

    def _context(self) -> ContextStruct:
        """A ready context, which keeps its memory alive."""
        largest = {s.name: s.max // s.multiple_of * s.multiple_of for s in self.program.sizes}
        context, nbytes = (
            context_struct(self._held)(),
            int(self._size(*([ctypes.byref(self._sizes(largest))] if largest else []))),
        )
        context.block = aligned(nbytes)
        given = [
            ctypes.byref(context),
            ctypes.c_void_p(context.block.ctypes.data),
            ctypes.c_size_t(nbytes),
        ]
        if self._weights is not None:
            given += [
                ctypes.c_void_p(self._weights.ctypes.data),
                ctypes.c_size_t(len(self._weights)),
            ]
        self._check("init", self._init(*given))
        return context

    def _sizes(self, sizes: Mapping[str, int]) -> ctypes.Array[ctypes.c_int64]:
        """`NAME_sizes`."""
        return (ctypes.c_int64 * len(self.program.sizes))(
            *(sizes[s.name] for s in self.program.sizes)
        )

    def _failed(self, context: ContextStruct) -> SourceError:
        """The error of the check that failed in a context's last run."""
        position, value = ctypes.c_int64(), ctypes.c_int64()
        assert self._failure is not None
        said = (
            self._failure(ctypes.byref(context), ctypes.byref(position), ctypes.byref(value)) or b""
        ).decode()
        return failure(said, position.value, value.value)

    def _check(self, function: str, status: int) -> None:
        if status:
            said = self._text(status).decode()
            problem = f"{self._prefix}_{function} refuses: {said} (status {status})"
            raise SourceError(Diagnostic("XL5024", problem))


def aligned(nbytes: int) -> Bytes:
    """Uninitialized bytes of memory, aligned to 64 bytes."""
    block = np.empty(nbytes + ALIGN, np.uint8)
    skip = -block.ctypes.data % ALIGN
    return block[skip : skip + nbytes]


def weights_of(file: Path, place: WeightsOrigin) -> Bytes | None:
    """The file of weights for a library: read, mapped, or None when the weights are inside."""
    match place:
        case WeightsOrigin.FILE:
            data = np.fromfile(file, np.uint8)
            block = aligned(len(data))
            block[:] = data
            return block
        case WeightsOrigin.MMAP:
            return np.frombuffer(mapped.watched_bytes(file), np.uint8)
    return None
