"""Releases the memory of LLVM's library: its unmodified pages are returned to the system after use.

Loading the library runs a constructor in every part of it, and the system maps the pages around
each: 60 MB, most of it never used. Generating code takes 50 MB more. Pages that are needed again
are reloaded from the file, or the system's page cache.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

LOADED, WRITABLE = 1, 2  # fields of a segment: its type, a flag bit
DONTNEED = 4  # madvise's advice on Linux


class _Segment(ctypes.Structure):
    """A program header of a 64-bit ELF file."""

    _fields_ = [
        ("type", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("offset", ctypes.c_uint64),
        ("address", ctypes.c_uint64), ("physical", ctypes.c_uint64), ("in_file", ctypes.c_uint64),
        ("in_memory", ctypes.c_uint64), ("align", ctypes.c_uint64),
    ]  # fmt: skip


class _Library(ctypes.Structure):
    """The first fields that `dl_iterate_phdr` reports for a library."""

    _fields_ = [
        ("base", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("segments", ctypes.c_void_p),
        ("count", ctypes.c_uint16),
    ]


def give_back() -> None:
    """Lets the system reclaim mapped pages of LLVM's library; does nothing where these cannot be
    determined.
    """
    for start, size in _unwritten():
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), DONTNEED)


@cache
def _unwritten() -> tuple[tuple[int, int], ...]:
    """(address, bytes) of the read-only segments of LLVM's library."""
    if sys.platform != "linux" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return ()
    from llvmlite.binding import ffi

    wanted, ranges = os.fsencode(ffi.lib._name), list[tuple[int, int]]()

    def visit(library: ctypes._Pointer[_Library], _size: int, _data: int) -> int:
        of = library.contents
        if of.name == wanted:
            page = os.sysconf("SC_PAGE_SIZE")
            for segment in (_Segment * of.count).from_address(of.segments):
                if segment.type == LOADED and not segment.flags & WRITABLE:
                    start = (of.base + segment.address) // page * page
                    ranges.append((start, of.base + segment.address + segment.in_memory - start))
        return 0

    callback = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.POINTER(_Library), ctypes.c_size_t, ctypes.c_void_p
    )
    ctypes.CDLL(None).dl_iterate_phdr(callback(visit), None)
    return tuple(ranges)
