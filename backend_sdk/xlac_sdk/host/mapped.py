"""Memory-mapped files that detect later changes.

Mapped data is read when it is used: writing to the file changes the weights of loaded models, and
truncating it ends the process at the next read (SIGBUS). Its size and time of change detect most
such cases, at the cost of one system call.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.mapping import opened, owner_of, region_of

if TYPE_CHECKING:  # not needed for loading a cached program
    from pathlib import Path

HINT = (
    "load the model again; give the file to a new name and rename it, or load with "
    "copy_weights=True (--copy-weights)"
)


class MappedFile:
    """A whole file, mapped read-only. It keeps the file open, so that changes are detected on this
    file and not on another that took its name.
    """

    def __init__(self, path: Path, descriptor: int, stamp: tuple[int, int]) -> None:
        self.path, self._descriptor, self._stamp = path, descriptor, stamp

    @property
    def changed(self) -> bool:
        """Whether the file's size or time of change differ from those when it was mapped."""
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

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self._descriptor)  # as a default, as modules may be gone when the process ends


def watched_bytes(path: Path) -> memoryview:
    """The bytes of a whole file, mapped; `file_of` finds the file of arrays in it.

    A file that is mapped already and unchanged is not mapped again: it takes one descriptor for all
    programs. Raises OSError, and ValueError for an empty file.
    """
    descriptor = opened(path)
    try:
        facts = os.fstat(descriptor)
        key = facts.st_dev, facts.st_ino, facts.st_ctime_ns, *_stamp(facts)
        with _lock:
            region = _regions.get(key)
            if region is None:
                region = region_of(descriptor, facts.st_size)
                region.watched = MappedFile(path, descriptor, _stamp(facts))
                descriptor = -1  # the file's
                _regions[key] = region
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    return memoryview(region).cast("B").toreadonly()


# mapped files by path and time stamps
_regions: weakref.WeakValueDictionary[tuple[int, ...], Any] = weakref.WeakValueDictionary()
_lock = Lock()


def _stamp(facts: os.stat_result) -> tuple[int, int]:
    return facts.st_size, facts.st_mtime_ns


def file_of(array: np.ndarray[Any, Any] | memoryview) -> MappedFile | None:
    """The mapped file that contains an array's elements, if they are in one of `watched_bytes`."""
    owner = array.obj if isinstance(array, memoryview) else owner_of(array)
    watched = getattr(owner, "watched", None)
    return watched if isinstance(watched, MappedFile) else None


def files_of(arrays: Iterable[np.ndarray[Any, Any]]) -> tuple[MappedFile, ...]:
    """The mapped files that contain arrays, each once."""
    return tuple(
        {id(file): file for array in arrays if (file := file_of(array)) is not None}.values()
    )


def check(files: Iterable[MappedFile]) -> None:
    """Raises SourceError when one of them has changed."""
    for file in files:
        file.check()


def watching(call: Callable[..., Any], files: tuple[MappedFile, ...]) -> Callable[..., Any]:
    """A function that checks the files before each call; `call` itself without files."""
    if not files:
        return call

    def watched(*arrays: Any, **named: Any) -> Any:
        check(files)
        return call(*arrays, **named)

    return watched
