"""Files of a run: whole or not at all, whatever happens meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EDQUOT, ENOSPC
from pathlib import Path

from xlac_sdk.source import Diagnostic, LimitError

TEMPORARY = ".tmp"


@contextmanager
def replacing(path: Path, what: str, kept: str = "") -> Iterator[Path]:
    """A temporary file that the block writes, and that is `path` afterwards: on disk before it has
    its name. Raises LimitError, which says what is kept, where the disk is full.
    """
    made = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        yield made
        descriptor = os.open(made, os.O_RDWR | getattr(os, "O_BINARY", 0))
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        made.replace(path)
        _remove(made)  # two names of one file: renaming one to the other did nothing
        sync_folder(path.parent)
    except OSError as error:
        _remove(made)
        if error.errno in (ENOSPC, EDQUOT):
            problem = f"{path}: the disk is full, and {what} was not written"
            raise LimitError(Diagnostic("XL4002", problem, hint=kept)) from None
        raise
    except BaseException:
        _remove(made)
        raise


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """The names in a folder are on disk as well."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def clear_temporary(folder: Path) -> None:
    """Removes what a run that was killed left half written."""
    for path in folder.glob(f".*{TEMPORARY}"):
        _remove(path)
