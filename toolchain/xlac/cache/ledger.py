"""The size of the cache in bytes, without visiting its entries.

A file in the cache's folder has a line with the bytes found when the entries were last counted, and
one line for each entry added after that. Entries removed meanwhile, and lost lines, are corrected
by the next count: after at most COUNTED entries, and whenever the file cannot be read.
"""

from __future__ import annotations

import os
from contextlib import suppress
from math import inf

LEDGER = "held-bytes"  # the file's name
COUNTED = 2000  # entries added between two counts, at most


def grown(root: str, nbytes: int) -> float:
    """Records an added entry of `nbytes`. Returns the bytes in the cache now; inf where it must be
    counted.
    """
    try:
        with open(os.path.join(root, LEDGER), "rb") as file:
            lines = file.read().split()
        if not lines or len(lines) > COUNTED:
            return inf
        with open(os.path.join(root, LEDGER), "ab", buffering=0) as file:
            file.write(b"%d\n" % nbytes)
        return sum(map(int, lines)) + nbytes
    except (OSError, ValueError):
        return inf


def counted(root: str, nbytes: int) -> None:
    """Records the counted bytes of a cache's entries."""
    with suppress(OSError), open(os.path.join(root, LEDGER), "wb", buffering=0) as file:
        file.write(b"%d\n" % nbytes)
