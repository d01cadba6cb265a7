"""This process's side of calls that may be stopped: what they ask Python with, and how one that
ended early ends here.

`stop.py` has the other side, in the code; it is not imported where code is only run.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from functools import cache

from xlac_sdk.host import stopping

WORDS = 12  # of the block that a call looks at: see stop.BLOCK
NEVER = (1 << 63) - 1
RAISED, LATE, ASKED = 1, 2, 3
Block = ctypes.Array[ctypes.c_int64]


@cache
def _table() -> ctypes.Array[ctypes.c_uint64]:
    """The functions of Python that a call asks with, and the thread that runs handlers of signals."""
    names = ("PyGILState_Ensure", "PyErr_CheckSignals", "PyGILState_Release", "PyErr_Fetch")
    found = [
        ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in names
    ]
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forked)
    return (ctypes.c_uint64 * 5)(*found, threading.main_thread().ident or 0)


def host() -> int:
    """The address of that table; 0 where this Python has none of it."""
    return ctypes.addressof(_table()) if sys.implementation.name == "cpython" else 0


def _forked() -> None:
    """The only thread of the child is its main one."""
    _table()[4] = threading.get_ident()


def block() -> Block:
    """What a call of this thread looks at."""
    words = (ctypes.c_int64 * WORDS)()
    seconds = stopping.left()
    words[2] = NEVER if seconds is None else _now() + max(0, int(seconds * 1e9))
    words[3] = threading.get_ident()
    words[4] = host()
    words[5] = stopping.flag_address()
    return words


def _now() -> int:
    return (
        time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        if hasattr(time, "clock_gettime_ns")
        else time.monotonic_ns()
    )


def ended(words: Block, why: int) -> None:
    """Raises what ended a call: `why` is what the code returned."""
    if words[6]:  # a handler raised; the code may have been done nevertheless
        restore = ctypes.pythonapi.PyErr_Restore
        restore.argtypes, restore.restype = [ctypes.c_void_p] * 3, None
        kept = [words[i] or None for i in (6, 7, 8)]
        words[6] = 0
        restore(*kept)  # raises it
    if why == LATE:
        raise stopping.late()
    if why:
        raise stopping.asked()
