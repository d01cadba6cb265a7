"""Memory for large blocks that are zero until they are written to."""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from typing import Any

import numpy as np

LEAST = 1 << 20  # bytes from which a block has pages of its own
WIDE = 4 << 20  # bytes from which it asks for large pages, as NumPy's arrays do


def zeroed(nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Zeros, u8. Pages that nobody touches take no memory: an allocator would reuse what was freed
    before, and write zeros to all of it.
    """
    if nbytes < LEAST or os.name != "posix":
        return np.zeros(nbytes, np.uint8)
    block = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if nbytes >= WIDE and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without large pages: ordinary ones serve as well
            block.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(block, np.uint8)
