"""Files mapped into memory, which know whether somebody has written to them since.

What is mapped is read when it is used: whoever writes to the file changes the weights of models
that are loaded, and whoever cuts it off ends the process that reads on (SIGBUS). Its size and time
of change tell, most of the time, and cost one system call.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import weakref
from collections.abc import Callable, Iterable
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from xlac_sdk.source import Diagnostic, SourceError

if TYPE_CHECKING:  # what was compiled before needs none
    from pathlib import Path

HINT = (
    "load the model again; give the file to a new name and rename it, or load with "
    "copy_weights=True (--copy-weights)"
)


class MappedFile:
    """A whole file, mapped read-only. It keeps the file open, so that it is told of this file and
    not of one that took its name.
    """

    def __init__(self, path: Path, descriptor: int, stamp: tuple[int, int]) -> None:
        self.path, self._descriptor, self._stamp = path, descriptor, stamp

    @property
    def changed(self) -> bool:
        """Whether the file has another size, or was written to, since it was mapped."""
        return _stamp(os.fstat(self._descriptor)) != self._stamp

    def check(self) -> None:
        """Raises SourceError when it has changed."""
        if self.changed:
            raise SourceError(
                Diagnostic(
                    "XL3017",
                    f"{self.path} was written to since it was mapped for the weights of a model",
                    hint=HINT,
                )
            )

    def __del__(self) -> None:
        os.close(self._descriptor)


def watched_bytes(path: Path) -> memoryview:
    """The bytes of a whole file, mapped, of which `file_of` knows the file.

    A file that is mapped already, and was not written to since, is not mapped again: however many
    programs read it, it takes one descriptor. Raises OSError, and ValueError for an empty file.
    """
    descriptor = _opened(path)
    try:
        facts = os.fstat(descriptor)
        key = facts.st_dev, facts.st_ino, facts.st_ctime_ns, *_stamp(facts)
        with _lock:
            region = _regions.get(key)
            if region is None:
                region = _region(descriptor, facts.st_size)
                region.watched = MappedFile(path, descriptor, _stamp(facts))
                descriptor = -1  # the file's
                _regions[key] = region
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    return memoryview(region).cast("B").toreadonly()


def file_bytes(path: str | os.PathLike[str]) -> memoryview:
    """The bytes of a whole file that nobody writes to, mapped; no descriptor stays open. Raises
    OSError, and ValueError for an empty file.
    """
    descriptor = _opened(path)
    try:
        region = _region(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)
    return memoryview(region).cast("B").toreadonly()


# what is mapped, by file and stamps
_regions: weakref.WeakValueDictionary[tuple[int, ...], Any] = weakref.WeakValueDictionary()
_lock = Lock()


def _opened(path: str | os.PathLike[str]) -> int:
    return os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))


class _Map(mmap.mmap):
    """A mapping that may be told its file."""

    watched: MappedFile


def _region(descriptor: int, size: int) -> Any:
    """An object whose buffer is a mapped file: the C library's mapping, where there is one, since
    Python's keeps a descriptor of its own.
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
    region.mapped = True  # and not memory of somebody else's
    weakref.finalize(region, system.munmap, address, size).atexit = False
    return region


@cache
def _system() -> ctypes.CDLL:
    """The C library, whose functions know what they take."""
    made = ctypes.CDLL(None, use_errno=True)
    numbers = [ctypes.c_int] * 3  # protection, flags and descriptor
    made.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *numbers, ctypes.c_long]
    made.mmap.restype = ctypes.c_void_p
    made.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    made.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return made


def _stamp(facts: os.stat_result) -> tuple[int, int]:
    return facts.st_size, facts.st_mtime_ns


def _owner(array: np.ndarray[Any, Any]) -> object:
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return owner.obj if isinstance(owner, memoryview) else owner


def file_of(array: np.ndarray[Any, Any] | memoryview) -> MappedFile | None:
    """The mapped file that an array's elements are in, if they are in one of `watched_bytes`."""
    owner = array.obj if isinstance(array, memoryview) else _owner(array)
    found = getattr(owner, "watched", None)
    return found if isinstance(found, MappedFile) else None


def forget(array: np.ndarray[Any, Any]) -> None:
    """Lets the system take back the memory of what was read of a mapped file through an array.

    Who reads it again gets it from the file again. Arrays that are not in a mapped file, and files
    mapped so that they can be written to, are left alone.
    """
    owner = _owner(array)
    if not isinstance(owner, mmap.mmap | ctypes.Array) or not hasattr(mmap, "MADV_DONTNEED"):
        return
    if not array.nbytes or not _read_only(owner):
        return  # what was written to a private mapping would be lost
    low, high = np.lib.array_utils.byte_bounds(array)
    begin = np.frombuffer(memoryview(owner).cast("B"), np.uint8).ctypes.data
    first = begin + -(-(low - begin) // mmap.PAGESIZE) * mmap.PAGESIZE
    last = begin + (high - begin) // mmap.PAGESIZE * mmap.PAGESIZE
    if first < last:
        _system().madvise(first, last - first, mmap.MADV_DONTNEED)


def _read_only(owner: Any) -> bool:
    """Whether memory is a mapping that nobody can write to."""
    return memoryview(owner).readonly if isinstance(owner, mmap.mmap) else hasattr(owner, "mapped")


def files_of(arrays: Iterable[np.ndarray[Any, Any]]) -> tuple[MappedFile, ...]:
    """The mapped files that arrays are in, each once."""
    return tuple(
        {id(file): file for array in arrays if (file := file_of(array)) is not None}.values()
    )


def check(files: Iterable[MappedFile]) -> None:
    """Raises SourceError when one of them has changed."""
    for file in files:
        file.check()


def watching(call: Callable[..., Any], files: tuple[MappedFile, ...]) -> Callable[..., Any]:
    """The same function, after a look at the files; the function itself where there are none."""
    if not files:
        return call

    def watched(*arrays: Any, **named: Any) -> Any:
        check(files)
        return call(*arrays, **named)

    return watched
