"""Which files a model is read from, and what they were: every reader notes those that it opens, for whoever wants to know."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from xlac.digest import file_digest
from xlac_sdk.files import regular

if TYPE_CHECKING:
    from pathlib import Path

HASHED = 1 << 20  # bytes up to which a file is compared by content
TICK = 50_000_000  # nanoseconds that may pass before a file's times change once more


class Seen(NamedTuple):
    """A file as it was: what stays the same while it holds the same, and what changes whenever it is written to."""

    content: list[Any]
    stamp: tuple[int, ...]


Files = dict["Path", Seen | None]
"""Files as they were before they were read; None for those that changed meanwhile, or just before."""

_noted: ContextVar[Files | None] = ContextVar("noted", default=None)


def note(file: Path) -> Path:
    """Says that a model depends on what is in a file, which is about to be read. Raises SourceError for what is no file."""
    regular(file)
    found = _noted.get()
    if found is not None:
        now, place = seen(file), file.absolute()
        found[place] = now if found.get(place, now) == now else None
    return file


@contextmanager
def noted() -> Iterator[Files]:
    """The files that are noted inside the block, in order."""
    found: Files = {}
    token = _noted.set(found)
    try:
        yield found
    finally:
        _noted.reset(token)


def seen(file: str | os.PathLike[str]) -> Seen | None:
    """A file as it is; None where that cannot be told: it cannot be read, or is large and was written to just now."""
    try:
        facts = os.stat(file)
        stamp = (facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino, facts.st_dev)
        if facts.st_size > HASHED and abs(time.time_ns() - facts.st_ctime_ns) < TICK:
            return None  # it may be written to again and look the same
        return Seen(content(file), stamp)
    except OSError:
        return None


def unchanged(files: Files) -> bool:
    """Whether all files still are what they were before they were read."""
    return all(before is not None and before == seen(file) for file, before in files.items())


def content(file: str | os.PathLike[str]) -> list[Any]:
    """What a file holds, as far as it takes to see that it changed. Raises OSError."""
    facts = os.stat(file)
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), file)
    if facts.st_size <= HASHED:
        return [facts.st_size, file_digest(os.fspath(file))]
    return [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino]
