"""Checksums of the files of the cache's entries, and their verification.

Small files are hashed whenever they are read. Large ones, constants that a program maps, would take
longer to read than everything else of a warm start: they are trusted while their size, times and
inode are those recorded since this machine was booted, as writing to a file changes its times.
Where any of these differs (the cache was copied, the machine went down before everything was on its
disk) their sums are compared, which takes a fifth of the time of a hash. docs/CACHE.md has the
measurements.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from xlac.support.digest import digest, file_digest

ENTRY = "entry.json"  # in an entry's folder: the hash of the record, and the record
SEALED = 2 << 20  # bytes from which on a file has sums instead of a hash
WORDS = 512  # 64-bit words in a row of the sums
ROWS = 1024
DAMAGED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What reading a record raises that is none, or one of other files."""

Seal = list[Any]


def seal(file: str) -> Seal:
    """The record of a file: its size and hash or, for a large one, its sums and its times."""
    facts = os.stat(file)
    if facts.st_size <= SEALED:
        return [facts.st_size, file_digest(file)]
    return [facts.st_size, sums(file), *_stamp(facts)]


def whole(file: str, known: Seal) -> bool:
    """Whether a file is as it was recorded. Raises OSError, and ValueError or TypeError for an
    invalid record.
    """
    size, content, *stamp = known
    facts = os.stat(file)
    if facts.st_size != size:
        return False
    if size <= SEALED:
        return bool(file_digest(file) == content)
    return _trusted(stamp, facts) or bool(sums(file) == content)


def outdated(file: str, known: Seal) -> bool:
    """Whether verifying this intact file would read all of it. Raises OSError."""
    return known[0] > SEALED and not _trusted(known[2:], os.stat(file))


def _stamp(facts: os.stat_result) -> list[Any]:
    return [facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino, _boot()]


def _trusted(stamp: list[Any], facts: os.stat_result) -> bool:
    return stamp == _stamp(facts) and bool(stamp[-1])


def _boot() -> str:
    """Identifies the boot of this machine; "" where the system does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


def sums(file: str) -> str:
    """The hash of a file's sums by rows and columns of 64-bit words; damage of any one row or
    column changes it.
    """
    parts: list[bytes] = []
    room = np.empty(ROWS * WORDS, np.uint64)
    view = room.data.cast("B")
    with open(file, "rb", buffering=0) as opened:
        while True:
            count = 0
            while count < len(view) and (more := opened.readinto(view[count:])):
                count += more
            room.view(np.uint8)[count:] = 0
            block = room.reshape(ROWS, WORDS)
            parts += (
                block.sum(axis=1, dtype=np.uint64).tobytes(),
                block.sum(axis=0, dtype=np.uint64).tobytes(),
                b"%d" % count,
            )
            if count < len(view):
                return digest(*parts)


# ---- entries ----------------------------------------------------------------------------------


def signed(entry: dict[str, Any]) -> str:
    """The text of an entry: the hash of the record, then the record."""
    text = json.dumps(entry)
    return f"{digest(text)}\n{text}"


def read_entry(place: str) -> dict[str, Any]:
    """The record of an entry. Raises OSError, and ValueError for a damaged one."""
    with open(os.path.join(place, ENTRY), encoding="utf-8") as file:
        checksum, _, text = file.read().partition("\n")
    if checksum != digest(text):
        raise ValueError("not as it was written")
    entry: dict[str, Any] = json.loads(text)
    return entry


def verified(place: str) -> dict[str, Any]:
    """The record of an entry whose files are as they were written. Raises OSError, and one of
    DAMAGED where they are not.
    """
    entry = read_entry(place)
    files: dict[str, Any] = entry["files"]
    fine = tells_of(entry["artifact"], files) and sorted(os.listdir(place)) == tops(files)
    if not fine or not all(
        whole(os.path.join(place, name), known) for name, known in files.items()
    ):
        raise ValueError("not as it was written")
    return entry


def tells_of(name: str, files: Mapping[str, Any]) -> bool:
    """Whether the artefact `name` is one of the files, and all of them are in the entry."""
    return name in files and not any(os.path.isabs(f) or ".." in f.split("/") for f in files)


def tops(files: Mapping[str, Any]) -> list[str]:
    """The names at the top of an entry's folder."""
    return sorted({ENTRY, *(name.partition("/")[0] for name in files)})
