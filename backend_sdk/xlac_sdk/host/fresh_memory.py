"""Allocates large zeroed blocks whose pages take memory only once written."""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from typing import Any

import numpy as np

LEAST = 1 << 20  # bytes from which a block is mapped separately
WIDE = 4 << 20  # bytes from which large pages are requested, as by NumPy


def zeroed(nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Zeros, u8. Untouched pages take no memory, whereas an allocator would reuse freed memory and
    write zeros to all of it.
    """
    if nbytes < LEAST or os.name != "posix":
        return np.zeros(nbytes, np.uint8)
    block = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if nbytes >= WIDE and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without large pages: ordinary ones work as well
            block.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(block, np.uint8)
