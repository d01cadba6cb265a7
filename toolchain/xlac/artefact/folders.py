"""Atomically replaces the folder of an earlier build, keeping files that others put there.

Only files that an earlier build provably wrote are removed: those listed in its manifest whose
hashes match. All other files are somebody's: they are moved to the new folder, and a build that
would overwrite one is refused.
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

EXCHANGE = 2  # flag of renameat2
HERE = -100  # AT_FDCWD


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """A temporary sibling that replaces `folder` when the block succeeds and is deleted otherwise.

    Raises SourceError for a folder that no build made, and when the block wrote a file where
    somebody has another.
    """
    folder = folder.resolve()  # a link to a folder stays a link
    written(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield temporary
        temporary.chmod(0o755)
        if not folder.exists():
            temporary.rename(folder)
            return
        ours = written(folder)
        shutil.copymode(folder, temporary)
        theirs = _bring(folder, temporary, ours)
        old = _exchange(temporary, folder)
    except BaseException:
        # our files, and hard links to files that remain in the folder
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _discard(old, folder, {*ours, *theirs})


def written(folder: Path) -> set[str]:
    """Names of the files in a folder that an earlier build wrote and that are unchanged; empty
    where the folder is empty or absent.

    Raises SourceError for a folder that is not an artefact's.
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
    """Whether a file has this hash and is no symbolic link. Raises OSError where it cannot be
    read.
    """
    return not file.is_symlink() and file.is_file() and manifest.file_hash(file) == digest


def _bring(folder: Path, temporary: Path, ours: set[str]) -> list[str]:
    """Links files that no build wrote into the new folder; both folders have them until one is
    deleted. Returns their names.
    """
    theirs: list[str] = []
    for place, folders, files in os.walk(folder, onerror=_refuse):
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        for name in (*files, *links):
            file = Path(place) / name
            inside = file.relative_to(folder)
            if inside.as_posix() in ours:
                continue
            if os.path.lexists(temporary / inside):
                problem = (
                    f"'{file}' is not as xlac build wrote it, or not from xlac build at all, and "
                    "would be overwritten"
                )
                raise SourceError(
                    Diagnostic(
                        "XL3010", problem, hint="move it away, or choose another folder with -o"
                    )
                )
            _room(folder, temporary, inside.parent)
            _link(file, temporary / inside)
            theirs.append(inside.as_posix())
        inside = Path(place).relative_to(folder)
        if not files and not folders:
            _room(folder, temporary, inside)
    return theirs


def _refuse(error: OSError) -> None:
    """A folder that cannot be read may hold anything, so it is not replaced."""
    raise error


def _room(folder: Path, temporary: Path, inside: Path) -> None:
    """Creates the parent folders of a file, as in the old folder."""
    for part in (*reversed(inside.parents), inside):
        if (temporary / part).is_dir():
            continue
        if os.path.lexists(temporary / part):
            problem = f"'{folder / part}' is not from xlac build, and would be overwritten"
            raise SourceError(
                Diagnostic("XL3010", problem, hint="move it away, or choose another folder with -o")
            )
        (temporary / part).mkdir()
        shutil.copystat(folder / part, temporary / part)


def _link(file: Path, place: Path) -> None:
    """A hard link to a file; a copy, where the file system has none."""
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


def _exchange(temporary: Path, folder: Path) -> Path:
    """Puts the new folder in the place of the old one: atomically where the system can, else by two
    renames. Returns the path of the old one.
    """
    if _swapped(temporary, folder):
        return temporary
    aside = temporary.with_name(f"{temporary.name}-old")
    folder.rename(aside)
    try:
        temporary.rename(folder)
    except OSError:
        aside.rename(folder)
        raise
    return aside


def _swapped(one: Path, other: Path) -> bool:
    """Whether Linux exchanged two names; not every file system can."""
    call = (
        getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
        if sys.platform == "linux"
        else None
    )
    return (
        call is not None and call(HERE, os.fsencode(one), HERE, os.fsencode(other), EXCHANGE) == 0
    )


def _discard(old: Path, folder: Path, known: Collection[str]) -> None:
    """Deletes the folder that was replaced. Files put there meanwhile are moved to the new one, or
    stay.
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
