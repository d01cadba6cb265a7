"""Cached code as a shared library: the system loads it in a millisecond, without importing LLVM.

It is made if a linker is available, which on x86-64 and AArch64 is the built-in one. If none is, or
the library cannot be loaded (such as from a noexec file system), LLVM links the objects as before.
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

from xlac_cpu.llvm.code import Code
from xlac_cpu.pool_block import EXPORTS
from xlac_cpu.run import fastcall, pool
from xlac_sdk.host.shared_library import SharedLibrary
from xlac_sdk.programs.program import Program
from xlac_sdk.source import UnsupportedError
from xlac_sdk.target import Target

if TYPE_CHECKING:
    from pathlib import Path

FILE = "code.so"


def write(artifact: Path, target: Target, folder: Path) -> None:
    """Links an artefact's objects, the fast-call function and, for a multi-threaded program, the
    pool into the folder.
    """
    from xlac_cpu.ahead import linker
    from xlac_cpu.llvm import link
    from xlac_cpu.llvm.host import host

    objects = [*link.members(artifact.read_bytes()).values()]
    if fastcall.supported():
        objects.append(fastcall.object_code())
    if target.threads > 1:
        objects.append(pool.object_code())
    try:
        linker.find(host()).open(objects, FILE, folder / FILE)
    except UnsupportedError:
        (folder / FILE).unlink(missing_ok=True)


def opened(folder: str, program: Program) -> Code | None:
    """The code of such a library; None if there is none, or it cannot be loaded."""
    try:
        library = SharedLibrary(os.path.join(folder, FILE))
    except OSError:  # missing, or not loadable
        return None
    addresses = {}
    for name in ("run", *fastcall.EXPORTS, *EXPORTS, *(("extents",) if program.sizes else ())):
        try:
            addresses[name] = ctypes.cast(library[name], ctypes.c_void_p).value or 0
        except AttributeError:
            continue
    return Code(library, addresses) if addresses.get("run") else None
