"""Memory that LLVM's library takes of this process: its pages that are only read are given back
when it has done its work.

Loading the library runs a constructor in every part of it, and the system maps what lies around
each: 60 MB, most of it never used. Generating code takes 50 MB more. What is needed again comes
back from the file, or the system's copy of it.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

LOADED, WRITABLE = 1, 2  # of a segment: its type, a bit of its flags
DONTNEED = 4  # advice to Linux


class _Segment(ctypes.Structure):
    """A program header of a 64-bit ELF file."""

    _fields_ = [
        ("type", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("offset", ctypes.c_uint64), ("address", ctypes.c_uint64),
        ("physical", ctypes.c_uint64), ("in_file", ctypes.c_uint64), ("in_memory", ctypes.c_uint64), ("align", ctypes.c_uint64),
    ]  # fmt: skip


class _Library(ctypes.Structure):
    """What `dl_iterate_phdr` says first of a library."""

    _fields_ = [
        ("base", ctypes.c_size_t), ("name", ctypes.c_char_p), ("segments", ctypes.c_void_p), ("count", ctypes.c_uint16),
    ]  # fmt: skip


def give_back() -> None:
    """Lets the system take back what it mapped of LLVM's library; nothing where there is no telling
    what was.
    """
    for start, size in _unwritten():
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), DONTNEED)


@cache
def _unwritten() -> tuple[tuple[int, int], ...]:
    """Where LLVM's code and its tables lie: (address, bytes) of segments that nobody can have
    written to.
    """
    if sys.platform != "linux" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return ()
    from llvmlite.binding import ffi

    wanted, found = os.fsencode(ffi.lib._name), list[tuple[int, int]]()

    def visit(library: ctypes._Pointer[_Library], _size: int, _data: int) -> int:
        of = library.contents
        if of.name == wanted:
            page = os.sysconf("SC_PAGE_SIZE")
            for segment in (_Segment * of.count).from_address(of.segments):
                if segment.type == LOADED and not segment.flags & WRITABLE:
                    start = (of.base + segment.address) // page * page
                    found.append((start, of.base + segment.address + segment.in_memory - start))
        return 0

    callback = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.POINTER(_Library), ctypes.c_size_t, ctypes.c_void_p
    )
    ctypes.CDLL(None).dl_iterate_phdr(callback(visit), None)
    return tuple(found)
