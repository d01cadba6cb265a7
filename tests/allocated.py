"""How much memory the C library has given out: what leaks show in, to the byte."""

from __future__ import annotations

import ctypes
import gc

_FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
KNOWN = hasattr(ctypes.CDLL(None), "mallinfo2")
"""Whether this C library tells: glibc from 2.33 does."""


class _Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS.split()]


def allocated() -> int:
    """Bytes that malloc has given out and that were not freed."""
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = _Mallinfo
    gc.collect()
    info = library.mallinfo2()
    return int(info.uordblks + info.hblkhd)
