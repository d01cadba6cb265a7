"""How many bytes a cache holds, without a look at its entries: a count, and what was kept since.

A file in the cache's folder has a line with the bytes that were found when the entries were last
counted, and one for each that was kept after that. Entries that were thrown away meanwhile, and
lines that were lost, are set right by the next count: after COUNTED entries at the latest, and
whenever the file cannot be read.
"""

from __future__ import annotations

import os
from contextlib import suppress
from math import inf

LEDGER = "held-bytes"  # the file
COUNTED = 2000  # entries that are kept from one count to the next at most


def grown(root: str, nbytes: int) -> float:
    """Notes that an entry of so many bytes was kept. The bytes that the cache holds now; inf where
    only a count can tell.
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
    """Notes what the entries of a cache were found to hold."""
    with suppress(OSError), open(os.path.join(root, LEDGER), "wb", buffering=0) as file:
        file.write(b"%d\n" % nbytes)
