"""What is recorded of a file in the cache, and of an entry, and whether it is still what was
recorded.

Small files are hashed whenever they are read. Large ones, constants that a program maps, would take
longer to read than everything else of a warm start: they count as whole while their size, times and
inode are those recorded since this machine was booted, because whoever writes to a file changes its
times. Where any of that differs (the cache was copied, the machine went down before everything was
on its disk) their sums are compared, which takes a fifth of the time of a hash. docs/CACHE.md has
the measurements.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from xlac.support.digest import digest, file_digest

ENTRY = "entry.json"  # in the folder of an entry: what it says, after its hash
SEALED = 2 << 20  # bytes from which on a file is not hashed
WORDS = 512  # of 64 bits in a row of the sums
ROWS = 1024

Seal = list[Any]


def seal(file: str) -> Seal:
    """What to record of a file: its size and hash or, of a large one, its sums, and what says that
    nobody wrote to it since.
    """
    facts = os.stat(file)
    if facts.st_size <= SEALED:
        return [facts.st_size, file_digest(file)]
    return [facts.st_size, sums(file), *_stamp(facts)]


def whole(file: str, known: Seal) -> bool:
    """Whether a file is as it was recorded. Raises OSError, and ValueError or TypeError for what is
    no seal.
    """
    size, content, *stamp = known
    facts = os.stat(file)
    if facts.st_size != size:
        return False
    if size <= SEALED:
        return bool(file_digest(file) == content)
    return _trusted(stamp, facts) or bool(sums(file) == content)


def outdated(file: str, known: Seal) -> bool:
    """Whether the next look at a whole file would be a slow one. Raises OSError."""
    return known[0] > SEALED and not _trusted(known[2:], os.stat(file))


def _stamp(facts: os.stat_result) -> list[Any]:
    return [facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino, _boot()]


def _trusted(stamp: list[Any], facts: os.stat_result) -> bool:
    return stamp == _stamp(facts) and bool(stamp[-1])


def _boot() -> str:
    """What tells one start of this machine from another; "" where nothing does."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


def sums(file: str) -> str:
    """The hash of a file's sums by rows and columns of 64-bit words, as it is read: damage of any
    one row or column shows.
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
    """The text of an entry: the hash of all that follows, then what it says."""
    text = json.dumps(entry)
    return f"{digest(text)}\n{text}"


def read_entry(place: str) -> dict[str, Any]:
    """What an entry says. Raises OSError, and ValueError for one that is damaged."""
    with open(os.path.join(place, ENTRY), encoding="utf-8") as file:
        checksum, _, text = file.read().partition("\n")
    if checksum != digest(text):
        raise ValueError("not as it was written")
    entry: dict[str, Any] = json.loads(text)
    return entry


def tells_of(name: str, files: Mapping[str, Any]) -> bool:
    """Whether the artefact is one of the files, and all of them are in the entry."""
    return name in files and not any(os.path.isabs(f) or ".." in f.split("/") for f in files)


def tops(files: Mapping[str, Any]) -> list[str]:
    """What there is in an entry's folder."""
    return sorted({ENTRY, *(name.partition("/")[0] for name in files)})
