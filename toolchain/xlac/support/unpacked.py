"""Folders of files that were pickled, which are gone with the object made from them."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def unpacked(files: Mapping[str, bytes]) -> Iterator[Path]:
    """A new folder with these files by name; removed where the statements inside raise."""
    folder = Path(tempfile.mkdtemp(prefix="xlac-"))
    try:
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def remove_with(owner: object, folder: Path) -> None:
    """Removes a folder when its owner is gone, or the process ends: not one that was forked."""
    weakref.finalize(owner, _remove, folder, os.getpid())


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
