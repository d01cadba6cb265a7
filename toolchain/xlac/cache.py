"""Artefacts on disk by what they were made from: compiling the same program again costs a lookup.

An entry is a folder named by the hash of everything that decides the artefact: the emitted sources, the backend
with its version, and the target's facts. It is written beside its place and renamed into it, so that processes
and kills never leave half of one. What is read is checked against the hash recorded when it was written (of a large
file, its size); an entry that does not match is thrown away. The least recently used go first when the cache outgrows its bound.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple, Protocol

from xlac.digest import digest, file_digest
from xlac_sdk.backend import Backend
from xlac_sdk.target import Target

if TYPE_CHECKING:  # looking for an entry does without: it is what a warm start waits for
    from pathlib import Path

ENTRY = "entry.json"
SEALED = 2 << 20  # bytes from which on a file is checked by its size
FRESH = 60.0  # seconds for which an entry is not collected: somebody may be about to load it
ABANDONED = 3600.0  # seconds after which a folder that was never renamed belongs to a process that died


class Named(Protocol):
    """A backend, as far as entries say whose they are."""

    @property
    def name(self) -> str: ...


class Entry(NamedTuple):
    """One artefact: its key, the program and backend it is for, its size, and when it was last used."""

    key: str
    program: str
    backend: str
    nbytes: int
    used: float
    folder: Path


def key_of(backend: Backend, target: Target, sources: Mapping[str, str]) -> str:
    """The name of an entry: a hash of everything that decides what `build` gives."""
    versions = version_of(backend), _version("xlac-sdk"), backend.built_by()
    texts = (part for name in sorted(sources) for part in (name, sources[name]))
    return digest(backend.name, _package(backend), *versions, _facts(target), *texts)


def _facts(target: Target) -> str:
    """Every fact of a target as text, sets in order."""
    values = ((f.name, getattr(target, f.name)) for f in fields(target))
    return repr([(name, sorted(map(str, v)) if isinstance(v, frozenset) else v) for name, v in values])


def version_of(backend: Backend) -> str:
    """The version of the distribution that a backend is from; "?" when it is none."""
    return _version(_package(backend))


def _package(backend: Backend) -> str:
    return type(backend).__module__.partition(".")[0].replace("_", "-")


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "?"


class Cache:
    """The entries of one folder, which no other user may write to."""

    def __init__(self, folder: str | Path, limit: int) -> None:
        self.root, self.limit = os.fspath(folder), limit

    @property
    def folder(self) -> Path:
        from pathlib import Path

        return Path(self.root)

    def artifact(self, key: str, program: str, backend: Named, make: Callable[[Path], Path]) -> Path | None:
        """The artefact of `key`, made by `make` in a folder when it is not there.

        None when the cache cannot be used (it cannot be written to, or others can write to it): then nothing
        was made. Whatever `make` raises is passed on, and leaves nothing behind.
        """
        import shutil
        from pathlib import Path

        found = self.find(key)
        if found is not None:
            return Path(found)
        made = self._room(key)
        if made is None:
            return None
        try:
            artifact = make(made)
            files = {p.relative_to(made).as_posix(): _seal(str(p)) for p in sorted(made.rglob("*")) if p.is_file()}
            entry = {
                "program": program, "backend": backend.name,
                "artifact": artifact.relative_to(made).as_posix(), "files": files,
            }  # fmt: skip
            (made / ENTRY).write_text(json.dumps(entry), encoding="utf-8")
            place = self._place(key)
            try:
                made.rename(place)
            except OSError:  # another process was faster
                shutil.rmtree(made, ignore_errors=True)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
        self.collect()
        found = self.find(key)
        return None if found is None else Path(found)

    def find(self, key: str) -> str | None:
        """The artefact of `key` if its entry is whole; one that is not is removed."""
        place = self._place(key)
        told = os.path.join(place, ENTRY)
        if not os.path.exists(told):
            return None
        try:
            with open(told, encoding="utf-8") as file:
                entry = json.load(file)
            artifact = os.path.join(place, str(entry["artifact"]))
            inside = os.path.realpath(artifact).startswith(os.path.join(os.path.realpath(place), ""))
            whole = inside and all(_seal(os.path.join(place, name)) == seal for name, seal in entry["files"].items())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            whole = False
        if not whole or not self._private():
            self._remove(place)
            return None
        os.utime(place)
        return artifact

    def entries(self) -> Iterator[Entry]:
        """Every entry, the least recently used first."""
        found = []
        for place in self.folder.glob("??/*"):
            try:
                entry = json.loads((place / ENTRY).read_text(encoding="utf-8"))
                nbytes = sum(p.stat().st_size for p in place.rglob("*") if p.is_file())
                used = place.stat().st_mtime
                found.append(Entry(place.name, str(entry["program"]), str(entry["backend"]), nbytes, used, place))
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return iter(sorted(found, key=lambda entry: entry.used))

    def collect(self, limit: int | None = None) -> list[Entry]:
        """Removes the least recently used entries until the rest fit the bound; what processes left too."""
        import shutil

        limit = self.limit if limit is None else limit
        entries = list(self.entries())
        total = sum(entry.nbytes for entry in entries)
        removed = []
        now = time.time()
        for entry in entries:
            if total <= limit:
                break
            if limit and now - entry.used < FRESH:
                continue
            self._remove(str(entry.folder))
            removed.append(entry)
            total -= entry.nbytes
        for left in self.folder.glob("tmp-*"):
            try:
                if now - left.stat().st_mtime > ABANDONED:
                    shutil.rmtree(left, ignore_errors=True)
            except OSError:
                continue
        return removed

    def _place(self, key: str) -> str:
        return os.path.join(self.root, key[:2], key)

    def _room(self, key: str) -> Path | None:
        import tempfile
        from pathlib import Path

        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            Path(self._place(key)).parent.mkdir(exist_ok=True, mode=0o700)
            if not self._private():
                return None
            return Path(tempfile.mkdtemp(prefix="tmp-", dir=self.root))
        except OSError:
            return None

    def _private(self) -> bool:
        """Whether nobody else could have put something here."""
        try:
            facts = os.stat(self.root)
        except OSError:
            return False
        mine = not hasattr(os, "getuid") or facts.st_uid == os.getuid()
        return mine and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)

    def _remove(self, place: str) -> None:
        """Out of sight at once, then gone: another process sees the whole entry or none."""
        import shutil
        import tempfile

        try:
            gone = tempfile.mkdtemp(prefix="tmp-", dir=self.root)
            os.rename(place, os.path.join(gone, "entry"))
        except OSError:
            return
        shutil.rmtree(gone, ignore_errors=True)


def _seal(file: str) -> str:
    """A file's hash; the size of one so large that hashing it would take longer than what the cache saves."""
    size = os.stat(file).st_size
    return f"{size} bytes" if size > SEALED else file_digest(file)
