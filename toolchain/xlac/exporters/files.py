"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """A file beside `file` that takes its place when the block succeeds, and goes when it does
    not.
    """
    with together(file) as (made,):
        yield made


@contextmanager
def together(*files: Path) -> Iterator[list[Path]]:
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
        for new, place in zip(made, places, strict=True):
            before[place] = _kept(place) if len(files) > 1 and place.exists() else None
            new.replace(place)
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
    handle, name = tempfile.mkstemp(prefix=f".{place.name}-", dir=place.parent)
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
