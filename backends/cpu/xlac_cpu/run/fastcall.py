"""The fast call of a program: a C function over NumPy arrays, compiled by LLVM instead of a C
compiler.

It is written once for all programs (`templates/fastcall.ll`, which has its explanation) and driven
by a plan, a block of memory that describes the inputs and what to allocate: `PLAN` names its words.
If `supported` is false, programs are called through ctypes. bench/CALLS.md has the costs of this
and the alternatives.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
import weakref
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from xlac_cpu import stop_block
from xlac_cpu.llvm.code import Code
from xlac_cpu.run import numpy_layout, watch
from xlac_sdk.host import stopping
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.sizes import sources

EXPORTS = ("call", "into", "discard")
RELEASE = 10_000  # nanoseconds of work from which the GIL is released


def _words(*names: str) -> dict[str, int]:
    """The offset of each of these consecutive 64-bit words."""
    return {name: 8 * place for place, name in enumerate(names)}


PLAN = _words(
    "inputs",
    "outputs",
    "type",
    "specs",
    "arena_bytes",
    "allocate",
    "arenas",
    "run",
    "fixed",
    "pool",
    "release",
    "otherwise",
    "sizes",
    "sources",
    "chosen",
    "extents",
    "shapes",
    "limits",
    "host",
)
SOURCE = _words("input", "axis", "factor", "constant", "min", "max", "multiple")
SPEC = {**_words("descr", "rank", "extents", "name", "itemsize"), "size": 40}
_FASTCALL, _KEYWORDS = 0x80, 0x02


class _Method(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("code", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


@cache
def supported() -> bool:
    """Whether the function can be used here: it requires CPython with its GIL, 64 bits, no debug
    build, and the array layout of `numpy_layout`.
    """
    return (
        sys.implementation.name == "cpython"
        and struct.calcsize("P") == 8
        and os.name == "posix"
        and (3, 11) <= sys.version_info < (3, 15)
        and "t" not in sys.abiflags  # free-threaded build
        and not hasattr(sys, "gettotalrefcount")
        and numpy_layout.as_assumed()
    )


@cache
def object_code() -> bytes:
    """The object with `call` and `discard`, for this machine."""
    from pathlib import Path
    from string import Template

    from xlac_cpu.llvm import objects
    from xlac_cpu.llvm.host import host

    machine = host()
    blocks = {
        "plan": PLAN,
        "spec": SPEC,
        "source": {**SOURCE, "size": 8 * len(SOURCE)},
        "array": {
            **numpy_layout.FIELDS,
            "dense": numpy_layout.DENSE,
            "writable": numpy_layout.DENSE | numpy_layout.WRITABLE,
        },
        "stop": {**stop_block.BLOCK, "bytes": stop_block.BYTES},
    }
    offsets = {
        f"{block}_{name}": offset
        for block, names in blocks.items()
        for name, offset in names.items()
    }
    text = (
        Path(__file__).parents[1].joinpath("templates", "fastcall.ll").read_text(encoding="utf-8")
    )
    header = json.dumps(machine.settings, sort_keys=True)
    return objects.object_code(
        Template(text).substitute(offsets, header=header, triple=machine.triple), sparing=True
    )


@cache
def code() -> Code:
    """That object loaded into this process, unless the code of a program includes it."""
    from xlac_cpu.llvm import link

    return Code(*link.load([object_code()], EXPORTS))


def functions(
    program: Program,
    code: Mapping[str, int],
    fixed: int,
    pool: int,
    release: bool,
    watched: bool,
    keep: object,
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A function from the program's inputs, positional or by keyword in order, to its output or a
    tuple of them; and one of its inputs and outputs, by position, that writes to the outputs.

    They return NotImplemented if an argument is not exactly the dense array that the program takes,
    or an output shares memory: the caller then converts it, or reports the error. `code` has the
    addresses of `run` and of the functions of `object_code`. A program that is `watched` has stop
    checks. `keep` lives at least as long as the functions: it owns the code and the constants.
    """
    plan, kept = _plan(program, code, fixed, pool, release, watched)
    capsule_of, function_of = _makers()
    name = ctypes.create_string_buffer(b"xlac.plan")
    capsule = capsule_of(ctypes.addressof(plan), name, None)
    methods = (
        _Method(b"call", code["call"], _FASTCALL | _KEYWORDS, b"Runs the compiled model."),
        _Method(b"into", code["into"], _FASTCALL, b"Runs the compiled model into its outputs."),
    )
    owner = _Owner((plan, kept, name, methods, keep))
    finalizer = weakref.finalize(
        owner, ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code["discard"]), _Pinned(plan)
    )
    finalizer.atexit = False  # a daemon thread may still be in a call while the process ends
    call, into = (function_of(ctypes.addressof(method), capsule, owner) for method in methods)
    return call, into


@cache
def _makers() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """PyCapsule_New and PyCFunction_New, as function objects private to this module.

    Functions of `ctypes.pythonapi` are shared by the whole process; setting their argtypes while
    another thread calls one frees data that this call reads.
    """
    address, text, value = ctypes.c_void_p, ctypes.c_char_p, ctypes.py_object
    capsule = ctypes.PYFUNCTYPE(value, address, text, address)
    method = ctypes.PYFUNCTYPE(value, address, value, value)
    python = ctypes.pythonapi
    return capsule(("PyCapsule_New", python)), method(("PyCFunction_NewEx", python))


class _Owner:
    """Keeps objects alive as long as functions: Python holds it as their module."""

    def __init__(self, parts: tuple[object, ...]) -> None:
        self.parts = parts

    def __repr__(self) -> str:
        return "xlac_cpu"


class _Pinned:
    """Passes a block's address to ctypes and keeps the block alive."""

    def __init__(self, block: ctypes.Array[ctypes.c_uint64]) -> None:
        self.block = block
        self._as_parameter_ = ctypes.addressof(block)


def _plan(
    program: Program, code: Mapping[str, int], fixed: int, pool: int, release: bool, watched: bool
) -> tuple[ctypes.Array[ctypes.c_uint64], list[object]]:
    """The plan and the Python objects that it refers to."""
    slots = (*program.inputs, *program.outputs)
    numpy_functions = numpy_layout.c_functions()
    kind, allocate = (
        int(numpy_functions[at] or 0)
        for at in (numpy_layout.ARRAY_TYPE, numpy_layout.NEW_FROM_DESCR)
    )
    words: list[int] = []
    kept: list[object] = []
    usual = {symbol.name: symbol.opt for symbol in program.sizes}
    # a call with symbolic sizes writes its own here
    shapes = [extent for slot in slots for extent in slot.extents(usual)]
    table, at = (ctypes.c_int64 * max(1, len(shapes)))(*shapes), 0
    for slot in slots:
        descr, name = slot.dtype.numpy, sys.intern(slot.name)
        extents = ctypes.addressof(table) + 8 * at
        words += [id(descr), len(slot.shape), extents, id(name), descr.itemsize]
        kept += [descr, name]
        at += len(slot.shape)
    specs = (ctypes.c_uint64 * max(1, len(words)))(*words)
    axes_of_sizes = sources(program.inputs)
    facts = [(*axes_of_sizes[s.name], s.min, s.max, s.multiple_of) for s in program.sizes]
    asked = (ctypes.c_int64 * max(1, 7 * len(facts)))(*(word for fact in facts for word in fact))
    results = (ctypes.c_int64 * max(1, len(facts)))()
    kept += [specs, table, asked, results]
    values = {
        "inputs": len(program.inputs),
        "outputs": len(program.outputs),
        "type": kind,
        "specs": ctypes.addressof(specs),
        "arena_bytes": program.arena_bytes,
        "allocate": allocate,
        "arenas": 0,
        "run": code["run"],
        "fixed": fixed,
        "pool": pool,
        "release": int(release),
        "otherwise": id(NotImplemented),
        "sizes": len(facts),
        "sources": ctypes.addressof(asked),
        "chosen": ctypes.addressof(results),
        "extents": code.get("extents", 0),
        "shapes": ctypes.addressof(table),
        "limits": stopping.ACTIVE_ADDRESS,
        "host": watch.host() if watched else 0,
    }
    return (ctypes.c_uint64 * len(PLAN))(*(values[name] for name in PLAN)), kept
