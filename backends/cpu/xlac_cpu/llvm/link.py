"""Loads objects into this process by a JIT linker, with one library for each program.

LLVM's linker keeps ten kilobytes of every library that was ever in it, and making one takes three
times as long as linking a program: so a few programs share one, which goes when they are gone.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from xlac_cpu.llvm.code import Code
from xlac_cpu.llvm.generator import code_generator
from xlac_cpu.llvm.host import host
from xlac_sdk.programs.program import Program
from xlac_sdk.source import Diagnostic, UnsupportedError

_lock = threading.Lock()
SHARING = 16  # programs that share a linker
_numbers = count()
_linker: list[Any] = []  # the current one, if any


def loaded(artifact: Path, program: Program) -> Code:
    """Loads the code of an artefact, a static library with the program's objects."""
    objects = members(artifact.read_bytes())
    return Code(*load([*objects.values()], ("run", *(("extents",) if program.sizes else ()))))


def load(objects: list[bytes], exports: tuple[str, ...]) -> tuple[Any, Mapping[str, int]]:
    """Links objects and returns the addresses of exports; the code lives as long as the first
    result.
    """
    import llvmlite.binding as llvm

    library = llvm.JITLibraryBuilder().add_current_process()
    for image in objects:
        library.add_object_img(image)
    for name in exports:
        library.export_symbol(name)
    with _lock:
        number = next(_numbers)
        # if creating a linker raises, the list stays empty, and the next program tries again
        if number % SHARING == 0 or not _linker:
            _linker.clear()
            _linker.append(llvm.create_lljit_compiler(code_generator(host()), use_jit_link=True))
        linker = _linker[0]
        try:
            tracker = library.link(linker, f"xlac{number}")
        except RuntimeError as error:
            problem = f"a function that the program calls is not defined: {error}"
            hint = "hand-written kernels may call only functions of their file and of the C library"
            raise UnsupportedError(Diagnostic("XL5113", problem, hint=hint)) from None
    # the order matters: a tuple releases its last item first
    return (linker, tracker), {name: tracker[name] for name in exports}


# ---- an artefact: the objects of a program in one file, in the format of `ar` -----------------

_MAGIC = b"!<arch>\n"


def archive(
    objects: Sequence[bytes], names: Sequence[str] = (), index: Sequence[str] = ()
) -> bytes:
    """Objects as a static library, without times, owners or paths: equal objects give equal bytes.

    `index`: the symbols of the first object, by which linkers find it.
    """
    parts = [_MAGIC]
    if index:
        text = b"".join(name.encode() + b"\0" for name in index)
        length = 4 + 4 * len(index) + len(text)
        first = len(_MAGIC) + 60 + length + length % 2
        parts.append(
            _member(
                "/", struct.pack(f">{len(index) + 1}I", len(index), *[first] * len(index)) + text
            )
        )
    for i, image in enumerate(objects):
        parts.append(_member(f"{names[i] if names else f'{i}.o'}/", image))
    return b"".join(parts)


def _member(name: str, data: bytes) -> bytes:
    header = f"{name[-16:]:<16}{0:<12}{0:<6}{0:<6}{0o644:<8o}{len(data):<10}`\n".encode()
    return header + data + b"\n" * (len(data) % 2)


def members(data: bytes) -> dict[str, bytes]:
    """The objects of a static library written by `archive`, by name."""
    members: dict[str, bytes] = {}
    at = len(_MAGIC)
    try:
        if not data.startswith(_MAGIC):
            raise ValueError
        while at < len(data):
            header = struct.unpack_from("60s", data, at)[0]
            size = int(header[48:58])
            if header[58:] != b"`\n" or at + 60 + size > len(data):
                raise ValueError
            members[header[:16].decode("latin-1").rstrip(" /")] = data[at + 60 : at + 60 + size]
            at += 60 + size + size % 2
    except (ValueError, struct.error):
        problem = "the compiled program is damaged: not a complete library of objects"
        raise UnsupportedError(Diagnostic("XL5108", problem, hint="build it again")) from None
    return members
