"""Writes files atomically, and makes names in a folder durable."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TEMPORARY = ".tmp"  # the suffix of names of unfinished files


@contextmanager
def replacing(file: Path, synced: bool = False) -> Iterator[Path]:
    """A temporary file beside `file` that replaces it when the block succeeds, and is deleted
    otherwise. With `synced` the data and the name are on disk when the block ends.
    """
    with together(file, synced=synced) as (made,):
        yield made


@contextmanager
def together(*files: Path, synced: bool = False) -> Iterator[list[Path]]:
    """Temporary files that replace `files`, all of them, when the block succeeds, and are deleted
    otherwise.

    When one cannot be replaced, those already replaced are restored.
    """
    places = [file.resolve() for file in files]  # a link to a file stays a link
    temporaries: list[Path] = []
    before: dict[Path, Path | None] = {}  # a replaced file -> its old content
    try:
        for place in places:
            place.parent.mkdir(parents=True, exist_ok=True)
            temporaries.append(_beside(place))
        yield temporaries
        for new, place in zip(temporaries, places, strict=True):
            new.chmod(place.stat().st_mode if place.exists() else 0o644)
            if synced:
                _sync(new, os.O_RDWR | getattr(os, "O_BINARY", 0))
        for new, place in zip(temporaries, places, strict=True):
            before[place] = _kept(place) if len(files) > 1 and place.exists() else None
            new.replace(place)
            if synced:
                sync_folder(place.parent)
    except BaseException:
        for place, old in before.items():
            if old is not None:
                old.replace(place)
            elif len(files) > 1 and not temporaries[places.index(place)].exists():
                place.unlink()
        raise
    finally:
        for path in (*temporaries, *filter(None, before.values())):
            path.unlink(missing_ok=True)


def _beside(place: Path) -> Path:
    """A new empty file in the same folder."""
    handle, name = tempfile.mkstemp(TEMPORARY, f".{place.name}-", place.parent)
    os.close(handle)
    return Path(name)


def _kept(place: Path) -> Path:
    """A second name of a file (a hard link); where the file system has none, the file itself is
    renamed.
    """
    second = _beside(place)
    second.unlink()
    try:
        second.hardlink_to(place)
    except OSError:
        place.rename(second)
    return second


def sync_folder(folder: Path) -> None:
    """Flushes the names in a folder to disk, where the system supports that."""
    if os.name == "posix":
        _sync(folder, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
