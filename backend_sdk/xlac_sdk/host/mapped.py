"""Files mapped into memory, which know whether somebody has written to them since.

What is mapped is read when it is used: whoever writes to the file changes the weights of models
that are loaded, and whoever cuts it off ends the process that reads on (SIGBUS). Its size and time
of change tell, most of the time, and cost one system call.
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


# what is mapped, by file and stamps
_regions: weakref.WeakValueDictionary[tuple[int, ...], Any] = weakref.WeakValueDictionary()
_lock = Lock()


def _stamp(facts: os.stat_result) -> tuple[int, int]:
    return facts.st_size, facts.st_mtime_ns


def file_of(array: np.ndarray[Any, Any] | memoryview) -> MappedFile | None:
    """The mapped file that an array's elements are in, if they are in one of `watched_bytes`."""
    owner = array.obj if isinstance(array, memoryview) else owner_of(array)
    watched = getattr(owner, "watched", None)
    return watched if isinstance(watched, MappedFile) else None


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
