"""A file system that fails on request: every call about files below a folder is counted, and the
n-th fails, or ends the process.

It stands between Python and the system: `os`, `open`, and what is done with open files.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self
from unittest import mock

CALLS = (
    "open",
    "stat",
    "lstat",
    "utime",
    "rename",
    "replace",
    "mkdir",
    "rmdir",
    "unlink",
    "remove",
    "scandir",
    "listdir",
    "chmod",
    "sendfile",
    "link",
    "symlink",
    "readlink",
)
ERRORS = tuple(
    getattr(errno, name) for name in ("ENOSPC", "EROFS", "EACCES", "EIO", "ENOENT", "EMFILE")
)


class Killed(BaseException):
    """The process is no more: nothing that it tries from now on has an effect."""


class FaultyDisk:
    """Counts the calls that concern files below `root`, and lets one fail, all from it on, or the
    process die there.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.calls = str(root), 0
        self._at, self._error, self._lasting = -1, 0, False
        self._open: set[int] = set()

    @contextmanager
    def failing(
        self, at: int = -1, error: int | None = 0, persistent: bool = False
    ) -> Iterator[None]:
        """The call of number `at` raises OSError with `error`, or Killed when that is None; if it
        is `persistent`, so do all later ones.
        """
        self.calls, self._at, self._error, self._lasting = (
            0,
            at,
            error or 0,
            persistent or error is None,
        )
        with ExitStack() as patches:
            for name in CALLS:
                patches.enter_context(mock.patch.object(os, name, self._counted(getattr(os, name))))
            opened = self._opened(io.open)
            patches.enter_context(mock.patch.object(io, "open", opened))
            patches.enter_context(mock.patch.object(builtins, "open", opened))
            yield

    def reach(self) -> None:
        """A call that may fail."""
        number, self.calls = self.calls, self.calls + 1
        if self._at >= 0 and (number == self._at or (self._lasting and number > self._at)):
            if self._error:
                raise OSError(self._error, os.strerror(self._error))
            raise Killed

    def concerns(self, *arguments: Any) -> bool:
        return any(
            value in self._open
            if isinstance(value, int)
            else isinstance(value, str | os.PathLike) and os.fspath(value).startswith(self.root)
            for value in arguments
        )

    def _counted(self, call: Any) -> Any:
        def counted(*args: Any, **named: Any) -> Any:
            if not self.concerns(*args, *named.values()):
                return call(*args, **named)
            self.reach()
            made = call(*args, **named)
            if call.__name__ == "open":
                self._open.add(made)
            return made

        counted.__name__ = call.__name__
        return counted

    def _opened(self, call: Any) -> Any:
        def opened(file: Any, *args: Any, **named: Any) -> Any:
            if isinstance(file, int) or not self.concerns(file):
                return call(file, *args, **named)
            self.reach()
            return _File(call(file, *args, **named), self)

        return opened


class _File:
    """An open file, each use of which may fail. One that is closed by dying is not flushed."""

    def __init__(self, file: Any, disk: FaultyDisk) -> None:
        self._file, self._disk = file, disk
        disk._open.add(file.fileno())

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._file, name)
        if name not in ("read", "readinto", "write", "writelines", "flush", "truncate"):
            return found

        def used(*args: Any) -> Any:
            self._disk.reach()
            return found(*args)

        return used

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        self._disk.reach()
        return iter(self._file)

    def close(self) -> None:
        self._disk._open.discard(self._file.fileno()) if not self._file.closed else None
        try:
            if not self._file.closed and self._file.writable():
                self._disk.reach()
        except BaseException:
            with Path(os.devnull).open("wb") as nothing:  # what was not yet written is lost
                os.dup2(nothing.fileno(), self._file.fileno())
            self._file.close()
            raise
        self._file.close()
