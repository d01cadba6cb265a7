"""Permission to use AMX's tile registers, which Linux gives a process that asks for it: their eight
kilobytes are then saved with each of its threads.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

from xlac_cpu.machine import Machine
from xlac_sdk.target import Target

_ARCH_PRCTL, _REQUEST, _TILE_DATA = 158, 0x1023, 18  # arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA)


@cache
def permitted() -> bool:
    """Whether this process and its later threads may use them, which is asked for here; never
    where the system is not Linux, or refuses.
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.syscall(_ARCH_PRCTL, _REQUEST, _TILE_DATA) == 0)


def suffice(target: Target) -> bool:
    """Whether this process may run code for a target: its machine has no such registers, or they
    are permitted. Every way in which code is loaded asks, for a process that finds its program kept
    knows nothing else of the processor.
    """
    return not (target.instructions and Machine.of(target).matrix) or permitted()
