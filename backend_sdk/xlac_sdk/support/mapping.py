"""Maps whole files into memory without keeping a descriptor open."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import weakref
from functools import cache
from typing import Any

import numpy as np


def file_bytes(path: str | os.PathLike[str]) -> memoryview:
    """The bytes of a whole file that is never written to, mapped; no descriptor stays open. Raises
    OSError, and ValueError for an empty file.
    """
    descriptor = opened(path)
    try:
        region = region_of(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)
    return memoryview(region).cast("B").toreadonly()


def opened(path: str | os.PathLike[str]) -> int:
    """A descriptor for reading a file. Raises OSError."""
    return os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))


class _Map(mmap.mmap):
    """A mapping that can have attributes."""


def region_of(descriptor: int, size: int) -> Any:
    """An object whose buffer is a mapped file: mapped by the C library where possible, since
    Python's mmap keeps a descriptor.
    """
    if os.name != "posix":
        return _Map(descriptor, 0, access=mmap.ACCESS_READ)
    if not size:
        raise ValueError("cannot map an empty file")
    system = _system()
    address = system.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno() or errno.ENOMEM, "a file cannot be mapped")
    region: Any = (ctypes.c_ubyte * size).from_address(address)
    region.mapped = True  # marks memory that is ours
    weakref.finalize(region, system.munmap, address, size).atexit = False
    return region


@cache
def _system() -> ctypes.CDLL:
    """The C library, with its functions' argument types declared."""
    library = ctypes.CDLL(None, use_errno=True)
    numbers = [ctypes.c_int] * 3  # protection, flags and descriptor
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *numbers, ctypes.c_long]
    library.mmap.restype = ctypes.c_void_p
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return library


def owner_of(array: np.ndarray[Any, Any]) -> object:
    """The object that owns an array's memory."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return owner.obj if isinstance(owner, memoryview) else owner


def forget(array: np.ndarray[Any, Any]) -> None:
    """Lets the system drop the pages of a mapped file that were read through an array.

    They are read again from the file when needed. Arrays that are not in a mapped file, and
    writable mappings, are left alone.
    """
    owner = owner_of(array)
    if not isinstance(owner, mmap.mmap | ctypes.Array) or not hasattr(mmap, "MADV_DONTNEED"):
        return
    if not array.nbytes or not _read_only(owner):
        return  # writes to a private mapping would be lost
    low, high = np.lib.array_utils.byte_bounds(array)
    begin = np.frombuffer(memoryview(owner).cast("B"), np.uint8).ctypes.data
    first = begin + -(-(low - begin) // mmap.PAGESIZE) * mmap.PAGESIZE
    last = begin + (high - begin) // mmap.PAGESIZE * mmap.PAGESIZE
    if first < last:
        _system().madvise(first, last - first, mmap.MADV_DONTNEED)


def _read_only(owner: Any) -> bool:
    """Whether memory is a read-only mapping."""
    return memoryview(owner).readonly if isinstance(owner, mmap.mmap) else hasattr(owner, "mapped")
