"""Access to files of unknown origin."""

from __future__ import annotations

import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from xlac_sdk.source import Diagnostic, SourceError

if TYPE_CHECKING:
    from pathlib import Path

SPECIAL = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (bool, "special"),
)


def regular(file: Path) -> Path:
    """The same path, if it is a regular file; a pipe, a device or a socket is refused, as reading
    it may block. Raises SourceError.
    """
    with suppress(OSError, ValueError):  # a missing file is reported when it is opened
        mode = file.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            kind = next(what for is_kind, what in SPECIAL if is_kind(mode))
            raise SourceError(
                Diagnostic(
                    "XL3001",
                    f"{file} is {kind}, and not a file",
                    hint="copy its contents into a file",
                )
            )
    return file
