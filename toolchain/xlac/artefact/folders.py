"""A folder that takes the place of one that an earlier build made: at once or not at all, and
without what others put there.

Only what an earlier build provably wrote is removed: files that its manifest lists, and whose
hashes are those it lists. Anything else in the folder is somebody's: it is in the new one too, and
a build that would write over it is refused.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from xlac_sdk.host import manifest
from xlac_sdk.source import Diagnostic, SourceError

EXCHANGE = 2  # of renameat2
HERE = -100  # AT_FDCWD


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """A temporary sibling that becomes `folder` when the block succeeds and vanishes when it does
    not.

    Raises SourceError for a folder with other content, and when the block made a file where
    somebody has another.
    """
    folder = folder.resolve()  # a link to a folder stays one
    written(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield made
        made.chmod(0o755)
        if not folder.exists():
            made.rename(folder)
            return
        ours = written(folder)
        shutil.copymode(folder, made)
        theirs = _bring(folder, made, ours)
        old = _exchange(made, folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)  # ours, and links to what is in the folder
        raise
    _discard(old, folder, {*ours, *theirs})


def written(folder: Path) -> set[str]:
    """Names in a folder of the files that an earlier build wrote and nobody changed; none when it
    is empty or not there.

    Raises SourceError for anything else than an artefact's folder.
    """
    if folder.is_dir():
        listed = manifest.listed(folder)
        if listed is not None:
            return {
                manifest.NAME,
                *(name for name, digest in listed.items() if _is(folder / name, digest)),
            }
        if not any(folder.iterdir()):
            return set()
    elif not os.path.lexists(folder):
        return set()
    problem = f"'{folder}' exists and is not a folder that xlac build made"
    raise SourceError(
        Diagnostic("XL3010", problem, hint="choose another folder with -o, or remove it")
    )


def _is(file: Path, digest: str) -> bool:
    """Whether a file has this hash, and is no link to somebody's. Raises OSError for one that
    cannot be read.
    """
    return not file.is_symlink() and file.is_file() and manifest.file_hash(file) == digest


def _bring(folder: Path, made: Path, ours: set[str]) -> list[str]:
    """Gives what is not ours in a folder a place in the new one; both have it until one of them
    goes. Names of the files.
    """
    theirs: list[str] = []
    for place, folders, files in os.walk(folder, onerror=_refuse):
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        for name in (*files, *links):
            file = Path(place) / name
            inside = file.relative_to(folder)
            if inside.as_posix() in ours:
                continue
            if os.path.lexists(made / inside):
                problem = (
                    f"'{file}' is not as xlac build wrote it, or not from xlac build at all, and "
                    "would be written over"
                )
                raise SourceError(
                    Diagnostic(
                        "XL3010", problem, hint="move it away, or choose another folder with -o"
                    )
                )
            _room(folder, made, inside.parent)
            _link(file, made / inside)
            theirs.append(inside.as_posix())
        inside = Path(place).relative_to(folder)
        if not files and not folders:
            _room(folder, made, inside)
    return theirs


def _refuse(error: OSError) -> None:
    """A folder that cannot be read may hold anything."""
    raise error


def _room(folder: Path, made: Path, inside: Path) -> None:
    """The folders that a file is in, as they were."""
    for part in (*reversed(inside.parents), inside):
        if (made / part).is_dir():
            continue
        if os.path.lexists(made / part):
            problem = f"'{folder / part}' is not from xlac build, and would be written over"
            raise SourceError(
                Diagnostic("XL3010", problem, hint="move it away, or choose another folder with -o")
            )
        (made / part).mkdir()
        shutil.copystat(folder / part, made / part)


def _link(file: Path, place: Path) -> None:
    """A second name of a file; a copy, where the file system has one name for each."""
    try:
        os.link(file, place, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (
            errno.EPERM,
            errno.ENOTSUP,
            errno.EXDEV,
            errno.EMLINK,
            errno.ENOSYS,
            errno.EINVAL,
        ):
            raise
        shutil.copy2(file, place, follow_symlinks=False)


def _exchange(made: Path, folder: Path) -> Path:
    """The new folder takes the place of the old: at once where the system can do that, else by two
    renames. Where the old one is.
    """
    if _swapped(made, folder):
        return made
    aside = made.with_name(f"{made.name}-old")
    folder.rename(aside)
    try:
        made.rename(folder)
    except OSError:
        aside.rename(folder)
        raise
    return aside


def _swapped(one: Path, other: Path) -> bool:
    """Whether Linux has exchanged two names; it does not on every file system."""
    call = (
        getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
        if sys.platform == "linux"
        else None
    )
    return (
        call is not None and call(HERE, os.fsencode(one), HERE, os.fsencode(other), EXCHANGE) == 0
    )


def _discard(old: Path, folder: Path, known: Collection[str]) -> None:
    """Removes the folder that was replaced; what somebody has put there since goes to the new one,
    or stays.
    """
    for name in known:
        with suppress(OSError):
            (old / name).unlink()
    with suppress(OSError):
        for place, folders, files in os.walk(old, topdown=False):
            inside = folder / Path(place).relative_to(old)
            for name in files:
                at = Path(place, name).relative_to(old).as_posix()
                if at not in known and inside.is_dir() and not os.path.lexists(inside / name):
                    (Path(place) / name).rename(inside / name)
            for name in folders:
                with suppress(OSError):
                    (Path(place) / name).rmdir()
        old.rmdir()
