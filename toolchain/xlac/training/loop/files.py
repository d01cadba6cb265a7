"""Writes the files of a run atomically: after a crash or a full disk a file is the old or the new
one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EDQUOT, ENOSPC
from pathlib import Path

from xlac.support import whole_files
from xlac_sdk.source import Diagnostic, LimitError


@contextmanager
def replacing(path: Path, what: str, kept: str = "") -> Iterator[Path]:
    """`xlac.support.whole_files.replacing`, synced to disk before it is renamed. Raises LimitError,
    with the hint `kept`, where the disk is full.
    """
    try:
        with whole_files.replacing(path, synced=True) as temporary:
            yield temporary
    except OSError as error:
        if error.errno in (ENOSPC, EDQUOT):
            problem = f"{path}: the disk is full, and {what} was not written"
            raise LimitError(Diagnostic("XL4002", problem, hint=kept)) from None
        raise


def clear_temporary(folder: Path) -> None:
    """Removes the temporary files of a run that was killed."""
    for path in folder.glob(f".*{whole_files.TEMPORARY}"):
        with suppress(OSError):
            path.unlink(missing_ok=True)
