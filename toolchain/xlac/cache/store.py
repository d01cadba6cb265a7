"""Artefacts on disk, keyed by everything they were made from: compiling the same program again
costs a lookup.

An entry is a folder named by the hash of everything that decides the artefact: the emitted sources,
the backend with its version, and the target's facts. It is written in a temporary folder and
renamed to its place, so that races and killed processes never leave a partial entry. Files are
verified when read (`seals.py`); an entry that does not match is removed. The least recently used
entries are removed when the cache exceeds its limit (`ledger.py` counts its bytes).

No error of the file system fails a compilation: what cannot be read counts as absent, what cannot
be written is not kept.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from xlac.cache.ledger import counted, grown
from xlac.cache.rooms import remove, room_in, sweep
from xlac.cache.seals import DAMAGED, ENTRY, outdated, read_entry, seal, signed, verified
from xlac.support.digest import BYTES

if TYPE_CHECKING:  # not needed for finding an entry, on which the time of a warm start depends
    from pathlib import Path

# seconds for which a new entry is not removed: another process may be about to load it
FRESH = 60.0
SLACK = 16  # a cache that exceeds its limit is brought 1/SLACK below it


class Named(Protocol):
    """The properties of a backend that an entry records."""

    @property
    def name(self) -> str:
        """The backend's name for users."""


class ArtefactEntry(NamedTuple):
    """One artefact: its key, the program and backend it is for, its size, and when it was last
    used.
    """

    key: str
    program: str
    backend: str
    nbytes: int
    used: float
    folder: Path


class Cache:
    """The entries of one folder, which no other user may be able to write to."""

    def __init__(self, folder: str | Path, limit: int) -> None:
        self.root, self.limit = os.fspath(folder), limit

    @property
    def folder(self) -> Path:
        """The folder with the entries."""
        from pathlib import Path

        return Path(self.root)

    def keep(
        self,
        key: str,
        program: str,
        backend: Named,
        write: Callable[[Path], Path],
        *,
        anew: bool = False,
    ) -> str | None:
        """Calls `write` with a temporary folder, in which it creates files and returns one of them,
        and makes the folder the entry of `key`. Returns the file's place in the cache.

        An existing entry stays, unless `anew`. Returns None when nothing can be kept: the disk is
        full or read-only, or others can write to the cache. Exceptions of `write` other than
        OSError are passed on.
        """
        import shutil

        path = None if anew else self.find(key)
        if path is not None:
            return path
        room = None
        try:
            room = self._room(key)
            if room is None:
                return None
            entry = room / "entry"
            entry.mkdir(mode=0o700)
            artifact = write(entry).relative_to(entry).as_posix()
            files = {
                p.relative_to(entry).as_posix(): seal(str(p))
                for p in sorted(entry.rglob("*"))
                if p.is_file()
            }
            about = {"program": program, "backend": backend.name, "artifact": artifact}
            (entry / ENTRY).write_text(signed({**about, "files": files}), encoding="utf-8")
            self._publish(str(entry), self._place(key), anew)
        except OSError:
            return None
        finally:
            if room is not None:
                shutil.rmtree(room, ignore_errors=True)
        if grown(self.root, sum(size for size, *_ in files.values())) > self.limit:
            self.collect(slack=self.limit // SLACK)
        else:
            sweep(self.root, time.time())
        return self.find(key)

    def find(self, key: str) -> str | None:
        """The artefact of `key` if its entry is intact; a damaged one is removed."""
        place = self._place(key)
        try:
            if not self._private():
                return None
            entry = verified(place)
            sealed = entry["files"].items()
            if any(outdated(os.path.join(place, name), known) for name, known in sealed):
                self._seal_again(place, entry)
        except DAMAGED:
            remove(self.root, place)
            return None
        except FileNotFoundError:
            if os.path.lexists(place):  # the folder exists, but files of it are gone
                remove(self.root, place)
            return None
        except OSError:  # unreadable: its content is unknown
            return None
        with suppress(OSError):  # read-only, or removed meanwhile
            os.utime(place)
        return os.path.join(place, entry["artifact"])

    def entries(self) -> Iterator[ArtefactEntry]:
        """Every entry, the least recently used first."""
        listed = []
        for place in self._places():
            try:
                program, backend = _whose(place)
                nbytes = sum(p.stat().st_size for p in place.rglob("*") if p.is_file())
                listed.append(
                    ArtefactEntry(
                        place.name, program, backend, nbytes, place.stat().st_mtime, place
                    )
                )
            except OSError:
                continue
        return iter(sorted(listed, key=lambda entry: entry.used))

    def collect(self, limit: int | None = None, slack: int = 0) -> list[ArtefactEntry]:
        """Removes the least recently used entries where the cache exceeds the limit, until it is
        `slack` bytes below; removes folders of dead processes too.
        """
        limit = self.limit if limit is None else limit
        entries = list(self.entries())
        total = sum(entry.nbytes for entry in entries)
        most = limit if total <= limit else limit - slack
        removed = []
        now = time.time()
        for entry in entries:
            if total <= most:
                break
            if limit and 0 <= now - entry.used < FRESH:
                continue
            if remove(self.root, str(entry.folder)):
                removed.append(entry)
                total -= entry.nbytes
        counted(self.root, total)
        sweep(self.root, now)
        return removed

    def _places(self) -> list[Path]:
        """Folders with the names of entries."""
        try:
            return [
                p
                for p in self.folder.glob("??/*")
                if _is_key(p.name) and p.name[:2] == p.parent.name
            ]
        except OSError:
            return []

    def _place(self, key: str) -> str:
        return os.path.join(self.root, key[:2], key)

    def _room(self, key: str) -> Path | None:
        """A temporary folder in the cache's, and the folder inside for the entry; None where others
        can write to the cache. Raises OSError.
        """
        from pathlib import Path

        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        Path(self._place(key)).parent.mkdir(exist_ok=True, mode=0o700)
        return room_in(self.root) if self._private() else None

    def _private(self) -> bool:
        """Whether no other user can write to the cache. Raises OSError."""
        facts = os.stat(self.root)
        mine = not hasattr(os, "getuid") or facts.st_uid == os.getuid()
        return mine and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)

    def _publish(self, entry: str, place: str, anew: bool) -> None:
        """Renames an entry to its place, unless another process was first. Raises OSError."""
        if anew:
            remove(self.root, place)
        try:
            os.rename(entry, place)
        except OSError:
            if not os.path.isdir(place):
                raise

    def _seal_again(self, place: str, entry: dict[str, Any]) -> None:
        """Records the present times of the files of an intact entry, so that the next verification
        is fast.
        """
        import shutil

        with suppress(OSError):
            room = room_in(self.root)
            try:
                files = {name: seal(os.path.join(place, name)) for name in entry["files"]}
                if all(files[name][:2] == known[:2] for name, known in entry["files"].items()):
                    (room / ENTRY).write_text(signed({**entry, "files": files}), encoding="utf-8")
                    (room / ENTRY).replace(os.path.join(place, ENTRY))
            finally:
                shutil.rmtree(room, ignore_errors=True)


def _whose(place: Path) -> tuple[str, str]:
    """The program and the backend of an entry; "?" for a damaged one, or one of an earlier version.
    Raises OSError.
    """
    try:
        entry = read_entry(str(place))
        return str(entry["program"]), str(entry["backend"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return "?", "?"


def _is_key(name: str) -> bool:
    return len(name) == 2 * BYTES and not set(name) - set("0123456789abcdef")
