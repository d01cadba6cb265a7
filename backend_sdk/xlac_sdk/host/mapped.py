"""Files mapped into memory, which know whether somebody has written to them since.

What is mapped is read when it is used: whoever writes to the file changes the weights of models
that are loaded, and whoever cuts it off ends the process that reads on (SIGBUS). Its size and time
of change tell, most of the time, and cost one system call.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from xlac_sdk.source import Diagnostic, SourceError

if TYPE_CHECKING:  # what was compiled before needs none
    from pathlib import Path

HINT = (
    "load the model again; give the file to a new name and rename it, or load with "
    "copy_weights=True (--copy-weights)"
)


class MappedFile(mmap.mmap):
    """A whole file, read-only. It keeps the file open, so that it is told of this file and not of
    one that took its name.
    """

    path: Path
    _descriptor: int
    _stamp: tuple[int, int]

    @staticmethod
    def of(path: Path) -> MappedFile:
        """Raises OSError, and ValueError for an empty file."""
        descriptor = os.open(
            path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        )
        try:
            stamp = _stamp(descriptor)
            made = MappedFile(descriptor, 0, access=mmap.ACCESS_READ)
        except BaseException:
            os.close(descriptor)
            raise
        made.path, made._descriptor, made._stamp = path, descriptor, stamp
        return made

    @property
    def changed(self) -> bool:
        """Whether the file has another size, or was written to, since it was mapped."""
        return _stamp(self._descriptor) != self._stamp

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
        descriptor = self.__dict__.pop("_descriptor", None)
        if descriptor is not None:
            os.close(descriptor)


def _stamp(descriptor: int) -> tuple[int, int]:
    facts = os.fstat(descriptor)
    return facts.st_size, facts.st_mtime_ns


def file_of(array: np.ndarray[Any, Any]) -> MappedFile | None:
    """The mapped file that an array's elements are in, if they are in one of ours."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    return owner if isinstance(owner, MappedFile) else None


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
