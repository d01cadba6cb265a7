"""Counters of Linux's perf_event_open(2): cycles, misses, faults, of the calling thread; those of
the processor in user mode.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

SYSCALL = {"x86_64": 298, "aarch64": 241, "riscv64": 241}
"""The number of the system call."""

HARDWARE, SOFTWARE = 0, 1
EVENTS = {
    "cycles": (HARDWARE, 0),
    "instructions": (HARDWARE, 1),
    "cache_misses": (HARDWARE, 3),
    "branch_misses": (HARDWARE, 5),
    "task_clock_ns": (SOFTWARE, 1),
    "page_faults": (SOFTWARE, 2),
    "context_switches": (SOFTWARE, 3),
}
"""Events by name: their type and number in linux/perf_event.h."""

NO_KERNEL = 1 << 5 | 1 << 6  # exclude_kernel, exclude_hv
TIMES = 1 | 2  # read_format: with the times that it was enabled, and that it ran

Open = Callable[[int, int], int]
"""Opens an event of a type and number; returns its file descriptor. Raises OSError."""


def opened(kind: int, number: int) -> int:
    """Opens an event of the calling thread. Raises OSError where the system has none."""
    call = SYSCALL.get(platform.machine())
    if call is None or platform.system() != "Linux":
        raise OSError(0, f"there is no perf_event_open on {platform.system()}")
    # the system's own events, such as page faults, happen in the kernel
    flags = NO_KERNEL if kind == HARDWARE else 0
    attributes = struct.pack("=IIQQQQQ", kind, 128, number, 0, 0, TIMES, flags).ljust(128, b"\0")
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = int(library.syscall(call, attributes, 0, -1, -1, 0))
    if descriptor < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return descriptor


@dataclass
class PerfEvents:
    """Events that are counted from when they are opened until `close`; `missing` has the reasons of
    those that the system does not give.
    """

    open: Open = opened
    read: Callable[[int, int], bytes] = os.read
    files: dict[str, int] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, (kind, number) in EVENTS.items():
            try:
                self.files[name] = self.open(kind, number)
            except OSError as error:
                self.missing[name] = error.strerror or str(error)

    def counts(self) -> dict[str, float]:
        """How often each event happened so far. Where several events share a counter of the
        processor in turn, the count is that of the whole time, estimated.
        """
        found: dict[str, float] = {}
        for name, file in self.files.items():
            value, enabled, ran = struct.unpack("=QQQ", self.read(file, 24))
            if ran:
                found[name] = value * enabled / ran
            else:
                self.missing[name] = "it never had a counter of the processor"
        return found

    def close(self) -> None:
        """Closes all events."""
        for file in self.files.values():
            os.close(file)
        self.files.clear()
