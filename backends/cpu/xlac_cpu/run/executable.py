"""A loaded program: its code, its constants in memory, and the ways to call it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from itertools import count
from typing import Any

import numpy as np

from xlac_cpu.emit import layout
from xlac_cpu.llvm.code import Code
from xlac_cpu.run import fastcall, pool, watch
from xlac_cpu.stop_block import BLOCK
from xlac_sdk.dtypes import Array
from xlac_sdk.host import mapped, stopping
from xlac_sdk.host.fresh_memory import zeroed
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.sizes import of_call
from xlac_sdk.target import Target

WATCHED, TEARS = stopping.LONG, "stopping tears state"  # a key of a program's facts
# calls after which a program gets its own fast function, which takes as long to make as hundreds of
# calls
QUICK = 16
LONG = "runs long"  # a key of a program's facts: other Python threads may run during a call
PLACED = 1 << 20  # bytes up to which a constant is copied to be aligned to a cache line


class CpuExecutable:
    """Thread-safe; calls of a program with state are serialized."""

    def __init__(self, code: Code, program: Program, target: Target) -> None:
        self.program, self._code = program, code
        self._constants = [
            _placed(program.constants[slot.symbol]) for slot in layout.fixed(program)
        ]
        self._mapped = mapped.files_of(self._constants)
        self._state = _aligned(program.state_bytes, zeroed)  # takes no memory until written to
        start = _address(self._state)
        states = [start + slot.offset for slot in layout.states(program)]
        kept = [*map(_address, self._constants), *states]
        self._exchanges = _exchanges(program)
        if "mesh" in program.facts:
            kept.append(0 if self._exchanges is None else self._exchanges.address)
        self._host = _host_table(program)
        if self._host is not None:
            kept.append(self._host.address)
        self._fixed = (ctypes.c_void_p * len(kept))(*kept)
        self._pool = pool.of(target.threads, code) if target.threads > 1 else 0
        self._watched, self._tears = watching(program)
        self._torn = False
        self._run = ctypes.CFUNCTYPE(
            ctypes.c_int32 if self._watched else None, *[ctypes.c_void_p] * 4
        )(code.addresses["run"])
        self._turn = threading.Lock() if program.state_bytes else None
        self._arenas: list[Array] = []
        self._calls = count(1)
        self.fast: Callable[..., Any] | None = None
        self.into: Callable[[Mapping[str, Any], Mapping[str, Any]], bool] | None = None
        if fastcall.EXPORTS[0] in code.addresses:
            self.quicken()

    def quicken(self) -> None:
        """Makes `fast` and `into`, unless calls are serialized or this Python is not supported."""
        if self._turn is None and fastcall.supported():
            program, addresses = self.program, self._code.addresses
            if not all(name in addresses for name in fastcall.EXPORTS):
                addresses = {**addresses, **fastcall.code().addresses}
            long = program.facts[LONG] if LONG in program.facts else _long(program)
            long |= self._exchanges is not None or self._host is not None
            fast, into = fastcall.functions(
                program,
                addresses,
                ctypes.addressof(self._fixed),
                self._pool,
                long,
                self._watched,
                self,
            )
            self.fast = mapped.watching(fast, self._mapped)
            self.into = _by_name(program, mapped.watching(into, self._mapped))
            self._arenas.clear()  # which has its own implementation

    def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Reads `inputs`, writes `outputs`: C-contiguous arrays by name, of their slots' types and
        shapes.
        """
        mapped.check(self._mapped)
        arrays = [inputs[slot.name] for slot in self.program.inputs]
        arrays = [
            array if _address(array) % slot.dtype.nbytes == 0 else array.copy()
            for array, slot in zip(arrays, self.program.inputs, strict=True)
        ]
        arrays += [outputs[slot.name] for slot in self.program.outputs]
        sizes = of_call(self.program, inputs)
        self.at([*map(_address, arrays), *(sizes[symbol.name] for symbol in self.program.sizes)])
        # a lost count of concurrent calls does not matter
        if next(self._calls) == QUICK and self.fast is None:
            self.quicken()

    def at(self, words: Sequence[int]) -> None:
        """`run` on addresses: of inputs, then outputs, then the program's sizes. Nothing is
        checked.
        """
        if self._turn is None:
            self._call(words)
            return
        with self._turn:
            if self._torn:
                raise stopping.torn()
            self._call(words)

    def reset(self) -> None:
        """Sets the state to zero."""
        if self._turn is not None:
            with self._turn:
                self._state[:] = 0
                self._torn = False

    def read_state(self, start: int = 0, stop: int | None = None) -> Array:
        """A copy of bytes of the state block."""
        with self._turn or nullcontext():
            return self._state[start:stop].copy()

    def write_state(self, block: Array, start: int = 0) -> None:
        """Overwrites bytes of the state block."""
        with self._turn or nullcontext():
            self._state[start : start + len(block)] = block
            self._torn &= len(block) < self.program.state_bytes

    def bind_state(self, addresses: Sequence[int]) -> None:
        """Places each state at an address of the caller's, a multiple of 64, in the order of the
        program's slots. `reset`, `read_state` and `write_state` do not apply to it.
        """
        with self._turn or nullcontext():
            first = len(self._constants)
            self._fixed[first : first + len(addresses)] = list(addresses)
            self._torn = False

    def _call(self, words: Sequence[int]) -> None:
        try:
            arena = self._arenas.pop()
        except IndexError:
            arena = _aligned(self.program.arena_bytes, _undefined)
        if not self._watched:
            self._run(
                (ctypes.c_void_p * len(words))(*words), self._fixed, _address(arena), self._pool
            )
            self._arenas.append(arena)
            return
        block = watch.block()
        table = (ctypes.c_void_p * (len(words) + 1))(*words, ctypes.addressof(block))
        why = self._run(table, self._fixed, _address(arena), self._pool)
        self._arenas.append(arena)
        self._torn = why != 0 and self._tears
        watch.ended(block, why)


def _exchanges(program: Program) -> Any:
    """The table of functions that exchange values with other ranks; None for a program of one."""
    if "mesh" not in program.facts:
        return None
    from xlac_sdk.host.ranks.communicator import table_of

    return table_of(program)


def _host_table(program: Program) -> Any:
    """The table of Python functions that steps call; None for a program without any, and for one
    from the cache, which has no steps.
    """
    if not program.steps:
        return None
    from xlac_sdk.programs.host_calls import HostTable, host_calls

    if not host_calls(program.every_step):
        return None
    words = [BLOCK[name] for name in ("flag", "type", "value", "trace")]
    return HostTable(program, words)


def _by_name(
    program: Program, into: Callable[..., Any]
) -> Callable[[Mapping[str, Any], Mapping[str, Any]], bool]:
    """The function for inputs and outputs by name. It gives False, and has done nothing, where
    these are not exactly the arrays that the program takes.
    """
    names = tuple(slot.name for slot in program.inputs)
    results = tuple(slot.name for slot in program.outputs)

    def call(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> bool:
        # another mapping may give what it does not have
        if type(inputs) is not dict or type(outputs) is not dict:
            return False
        if len(inputs) != len(names) or len(outputs) != len(results):
            return False
        try:
            arrays = [inputs[name] for name in names]
            arrays += [outputs[name] for name in results]
        except KeyError:
            return False
        return into(*arrays) is not NotImplemented

    return call


def watching(program: Program) -> tuple[bool, bool]:
    """Whether a program has stop checks, and whether stopping it may leave its state
    inconsistent.
    """
    if WATCHED in program.facts:
        return program.facts[WATCHED], program.facts[TEARS]
    from xlac_sdk.lowering.stop_checks import StopChecks

    stop_checks = StopChecks(program)
    return stop_checks.long, stop_checks.tears


def _long(program: Program) -> bool:
    """Whether a call takes so long that other Python threads should run meanwhile."""
    from xlac_cpu import duration

    return duration.estimate(program.steps) > fastcall.RELEASE


def _aligned(nbytes: int, make: Callable[[int], Array]) -> Array:
    """Bytes of `make`, aligned to a cache line."""
    block = make(nbytes + layout.ALIGNMENT)
    at = -_address(block) % layout.ALIGNMENT
    return block[at : at + nbytes]


def _undefined(nbytes: int) -> Array:
    """Bytes whose contents are undefined."""
    return np.empty(nbytes, np.uint8)


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _placed(array: Array) -> Array:
    """A constant where kernels can read it: in place, unless it is small and in a user's file, or
    misaligned.
    """
    array = np.ascontiguousarray(array)
    at = _address(array)
    theirs = array.nbytes <= PLACED and mapped.file_of(array) is not None
    if (at % layout.ALIGNMENT == 0 and not theirs) or (
        array.nbytes > PLACED and at % array.dtype.itemsize == 0
    ):
        return array
    copy = _aligned(array.nbytes, _undefined)
    copy[:] = array.reshape(-1).view(np.uint8)
    return copy.view(array.dtype).reshape(array.shape)
