"""The collections of texts in an HDF5 file, checked before libhdf5 walks them: it adds up the sizes
that objects say they have, and never ends at a free space of size 0.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from xlac.frontends.keras.file.malformed import MalformedKerasFile

SIGNATURE = b"GCOL\x01"
HEADER = 16  # bytes: signature, version, three that are reserved, the collection's size
OBJECT = 16  # bytes before an object's own: its number, references, four reserved, its size


def check_global_heaps(source: Path | bytes) -> None:
    """Raises MalformedKerasFile for a collection whose objects do not add up to it. Data that only
    look like a collection do not give its size, and are passed over.
    """
    if isinstance(source, bytes):
        _check(source)
    elif source.stat().st_size:
        with (
            source.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            _check(data)


def _check(data: bytes | mmap.mmap) -> None:
    start = data.find(SIGNATURE)
    while start >= 0:
        if start + HEADER <= len(data):
            (size,) = struct.unpack_from("<Q", data, start + 8)
            if HEADER <= size <= len(data) - start and not _adds_up(data, start + HEADER, size):
                raise MalformedKerasFile(
                    f"the texts at byte {start} have sizes that do not add up to theirs"
                )
        start = data.find(SIGNATURE, start + 1)


def _adds_up(data: bytes | mmap.mmap, at: int, size: int) -> bool:
    end = at - HEADER + size
    while at + OBJECT <= end:
        number, size = struct.unpack_from("<H6xQ", data, at)
        needed = OBJECT + (size + 7) // 8 * 8 if number else size  # number 0 is free space
        if not 0 < needed <= end - at:
            return False
        at += needed
    return True
