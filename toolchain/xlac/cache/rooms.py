"""Folders of the cache in which entries are written, and into which they are moved to be removed,
so that other processes see a whole entry or none.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from xlac.cache.seals import ENTRY

if TYPE_CHECKING:  # not needed for finding an entry, on which the time of a warm start depends
    from pathlib import Path

ROOM = "xlac-room-"  # prefix of the folders' names
MARK = "made-by-xlac"  # a file in each such folder, which marks it as ours
ABANDONED = 3600.0  # seconds after which such a folder is taken to belong to a dead process


def room_in(root: str) -> Path:
    """A new folder in the cache's, marked as ours. Raises OSError."""
    import tempfile
    from pathlib import Path

    room = Path(tempfile.mkdtemp(prefix=ROOM, dir=root))
    try:
        (room / MARK).touch()
    except OSError:
        with suppress(OSError):
            room.rmdir()
        raise
    return room


def sweep(root: str, now: float) -> None:
    """Removes folders of dead processes: those with our marker alone."""
    import shutil
    from pathlib import Path

    with suppress(OSError):
        for left in Path(root).glob(ROOM + "*"):
            with suppress(OSError):
                if (
                    (left / MARK).is_file()
                    and not left.is_symlink()
                    and now - left.stat().st_mtime > ABANDONED
                ):
                    shutil.rmtree(left, ignore_errors=True)


def remove(root: str, place: str) -> bool:
    """Renames an entry into a room, then deletes it. Returns whether it is gone from its place."""
    import shutil

    try:
        room = room_in(root)
    except OSError:
        return _removed_in_place(place)
    try:
        os.rename(place, os.path.join(room, "entry"))
    except OSError:
        return False
    finally:
        shutil.rmtree(room, ignore_errors=True)
    return True


def _removed_in_place(place: str) -> bool:
    """Deletes an entry where no room can be made, as on a full disk: the file that makes it an
    entry first, without which no process uses the others. Returns whether it is gone.
    """
    import shutil

    if os.path.islink(place):  # what it leads to is not ours
        return False
    try:
        os.unlink(os.path.join(place, ENTRY))
    except FileNotFoundError:
        pass  # damaged: it is none already
    except OSError:
        return False
    shutil.rmtree(place, ignore_errors=True)
    return not os.path.lexists(place)


def copied(artifact: Path, built: Path, room: Path) -> Path:
    """A copy of an artifact in a folder, with all files built with it. Raises OSError."""
    import shutil

    shutil.copytree(built, room, dirs_exist_ok=True)
    return room / artifact.relative_to(built)
