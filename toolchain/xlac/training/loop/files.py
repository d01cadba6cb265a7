"""Files of a run: whole or not at all, whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EDQUOT, ENOSPC
from pathlib import Path

from xlac.support import whole_files
from xlac_sdk.source import Diagnostic, LimitError


@contextmanager
def replacing(path: Path, what: str, kept: str = "") -> Iterator[Path]:
    """`xlac.support.whole_files.replacing`, on disk before it has its name. Raises LimitError, which
    says what is kept, where the disk is full.
    """
    try:
        with whole_files.replacing(path, synced=True) as made:
            yield made
    except OSError as error:
        if error.errno in (ENOSPC, EDQUOT):
            problem = f"{path}: the disk is full, and {what} was not written"
            raise LimitError(Diagnostic("XL4002", problem, hint=kept)) from None
        raise


def clear_temporary(folder: Path) -> None:
    """Removes what a run that was killed left half written."""
    for path in folder.glob(f".*{whole_files.TEMPORARY}"):
        with suppress(OSError):
            path.unlink(missing_ok=True)
