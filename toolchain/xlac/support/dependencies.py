"""The files that a model is read from, and their state when read: every reader records the files
that it opens.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xlac.support.digest import file_digest
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.files import regular

if TYPE_CHECKING:
    from pathlib import Path

    from xlac_sdk.host.mapped import MappedFile

LINE = 64  # bytes
HASHED = 1 << 20  # bytes up to which a file is compared by its content
TICK = 50_000_000  # nanoseconds: file systems may give two writes within this time equal stamps


class Seen(NamedTuple):
    """The state of a file at one moment: facts that stay the same while its content does, and time
    stamps that change with every write.
    """

    content: list[Any]
    stamp: tuple[int, ...]


Files = dict["Path", Seen | None]
"""Files in the state before they were read; None for those that changed meanwhile, or just before.
"""

_mapped: ContextVar[list[MappedFile] | None] = ContextVar("mapped", default=None)
_copying: ContextVar[bool] = ContextVar("copying", default=False)
_noted: ContextVar[Files | None] = ContextVar("noted", default=None)


def note(file: Path) -> Path:
    """Records that a model depends on a file, which is about to be read. Raises SourceError where
    it is no regular file.
    """
    regular(file)
    files = _noted.get()
    if files is not None:
        now, place = seen(file), file.absolute()
        files[place] = now if files.get(place, now) == now else None
    return file


def mapped(file: Path) -> memoryview:
    """The bytes of a file, mapped, or read where weights are to be copied. Raises OSError, and
    SourceError where it is no regular file.
    """
    from xlac_sdk.host.mapped import file_of, watched_bytes

    with note(file).open("rb") as opened:
        size = os.fstat(opened.fileno()).st_size
        if not size:
            return memoryview(b"")
        if _copying.get():
            block = np.empty(size + LINE, np.uint8)
            start = -block.ctypes.data % LINE  # aligned as mapped files are
            room = block[start : start + size]
            if opened.readinto(room.data) != size:
                raise OSError(errno.EIO, "it became shorter while it was read")
            room.flags.writeable = False
            return room.data
    data = watched_bytes(file)
    maps, whose = _mapped.get(), file_of(data)
    if maps is not None and whose is not None:
        maps.append(whose)
    return data


@contextmanager
def copying(wanted: bool = True) -> Iterator[None]:
    """Inside the block, files of weights are read into memory instead of mapped."""
    token = _copying.set(wanted)
    try:
        yield
    finally:
        _copying.reset(token)


@contextmanager
def steady() -> Iterator[list[MappedFile]]:
    """The files mapped in the block. Raises SourceError at its end where one was written to
    meanwhile, as its data may be partly old and partly new.
    """
    files: list[MappedFile] = []
    token = _mapped.set(files)
    try:
        yield files
    finally:
        _mapped.reset(token)
    changed = next((file.path for file in files if file.changed), None)
    if changed is not None:
        problem = f"{changed} was written to while the model was compiled"
        raise SourceError(
            Diagnostic(
                "XL3015",
                problem,
                hint="compile again when nobody writes to it; writers should rename a new file "
                "over the old one",
            )
        )


@contextmanager
def noted() -> Iterator[Files]:
    """The files recorded inside the block, in order."""
    files: Files = {}
    token = _noted.set(files)
    try:
        yield files
    finally:
        _noted.reset(token)


def seen(file: str | os.PathLike[str]) -> Seen | None:
    """The state of a file; None where it is not certain: it cannot be read, or is large and was
    written to just now.
    """
    try:
        facts = os.stat(file)
        stamp = (facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino, facts.st_dev)
        if facts.st_size > HASHED and abs(time.time_ns() - facts.st_ctime_ns) < TICK:
            return None  # another write could leave the same time stamps
        return Seen(content(file), stamp)
    except OSError:
        return None


def unchanged(files: Files) -> bool:
    """Whether all files are as they were before they were read."""
    return all(before is not None and before == seen(file) for file, before in files.items())


def content(file: str | os.PathLike[str]) -> list[Any]:
    """The content of a file, or as much of it as shows a change. Raises OSError."""
    facts = os.stat(file)
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), file)
    if facts.st_size <= HASHED:
        return [facts.st_size, file_digest(os.fspath(file))]
    return [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino]
