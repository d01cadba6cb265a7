"""This process's side of stop checks: the functions that calls use, and the end of a call that was
stopped.

`emit/stopping/function.py` generates the other side.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from functools import cache

from xlac_cpu.stop_block import LATE, NEVER, WORDS
from xlac_sdk.host import stopping

Block = ctypes.Array[ctypes.c_int64]
DEADLINE, OWNER, HOST, OUTSIDE, TYPE, VALUE, TRACE = map(
    WORDS.index, ("deadline", "owner", "host", "outside", "type", "value", "trace")
)


@cache
def _table() -> ctypes.Array[ctypes.c_uint64]:
    """The functions of Python that a call uses, and the thread that runs signal handlers."""
    names = ("PyGILState_Ensure", "PyErr_CheckSignals", "PyGILState_Release", "PyErr_Fetch")
    addresses = [
        ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in names
    ]
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forked)
    return (ctypes.c_uint64 * 5)(*addresses, threading.main_thread().ident or 0)


def host() -> int:
    """The address of that table; 0 if this Python does not have these functions."""
    return ctypes.addressof(_table()) if sys.implementation.name == "cpython" else 0


def _forked() -> None:
    """The only thread of a forked child is its main thread."""
    _table()[4] = threading.get_ident()


def block() -> Block:
    """The stop block of a call on this thread."""
    words = (ctypes.c_int64 * len(WORDS))()
    seconds = stopping.left()
    words[DEADLINE] = NEVER if seconds is None else _now() + max(0, int(seconds * 1e9))
    words[OWNER] = threading.get_ident()
    words[HOST] = host()
    words[OUTSIDE] = stopping.flag_address()
    return words


def _now() -> int:
    return (
        time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        if hasattr(time, "clock_gettime_ns")
        else time.monotonic_ns()
    )


def ended(words: Block, why: int) -> None:
    """Raises the error for a stopped call: `why` is the code's return value."""
    if words[TYPE]:  # a handler raised; the call may have completed nevertheless
        # of its own: those of `ctypes.pythonapi` are shared by all threads
        kind = ctypes.PYFUNCTYPE(None, *[ctypes.c_void_p] * 3)
        restore = kind(("PyErr_Restore", ctypes.pythonapi))
        kept = [words[i] or None for i in (TYPE, VALUE, TRACE)]
        words[TYPE] = 0
        restore(*kept)  # raises the handler's exception
    if why == LATE:
        raise stopping.late()
    if why:
        raise stopping.asked()
