"""Files that appear whole or not at all, and names in a folder that are on disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TEMPORARY = ".tmp"  # what names of files end with until they are whole


@contextmanager
def replacing(file: Path, synced: bool = False) -> Iterator[Path]:
    """A file beside `file` that takes its place when the block succeeds, and goes when it does
    not. `synced`: it is on disk before it has its name, and so is the name when this ends.
    """
    with together(file, synced=synced) as (made,):
        yield made


@contextmanager
def together(*files: Path, synced: bool = False) -> Iterator[list[Path]]:
    """Files beside others that take their places, all of them, when the block succeeds, and go when
    it does not.

    When one cannot be replaced, those that were are put back.
    """
    places = [file.resolve() for file in files]  # a link to a file stays one
    made: list[Path] = []
    before: dict[Path, Path | None] = {}  # a replaced file -> where it still is
    try:
        for place in places:
            place.parent.mkdir(parents=True, exist_ok=True)
            made.append(_beside(place))
        yield made
        for new, place in zip(made, places, strict=True):
            new.chmod(place.stat().st_mode if place.exists() else 0o644)
            if synced:
                _sync(new, os.O_RDWR | getattr(os, "O_BINARY", 0))
        for new, place in zip(made, places, strict=True):
            before[place] = _kept(place) if len(files) > 1 and place.exists() else None
            new.replace(place)
            if synced:
                sync_folder(place.parent)
    except BaseException:
        for place, old in before.items():
            if old is not None:
                old.replace(place)
            elif len(files) > 1 and not made[places.index(place)].exists():
                place.unlink()
        raise
    finally:
        for path in (*made, *filter(None, before.values())):
            path.unlink(missing_ok=True)


def _beside(place: Path) -> Path:
    """An empty file with a name that nobody has."""
    handle, name = tempfile.mkstemp(TEMPORARY, f".{place.name}-", place.parent)
    os.close(handle)
    return Path(name)


def _kept(place: Path) -> Path:
    """A second name of a file; the file itself under another, where the file system has one name
    for each.
    """
    second = _beside(place)
    second.unlink()
    try:
        second.hardlink_to(place)
    except OSError:
        place.rename(second)
    return second


def sync_folder(folder: Path) -> None:
    """The names in a folder are on disk, where the system can say so."""
    if os.name == "posix":
        _sync(folder, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
