"""Ctrl-C and SIGTERM (with which clusters preempt jobs) during a run: the current step is finished
first; a second signal acts at once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from xlac_sdk.host.ranks.communicator import Communicator

TERMINATED = 128 + signal.SIGTERM  # the exit code of a program ended by SIGTERM


class Interrupt:
    """The signal received, if any: SIGINT (ctrl-C) or SIGTERM."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def is_asked(self, here: Communicator | None) -> bool:
        """Whether the run is to end; ranks do what the signal of rank 0 says."""
        if here is not None:
            self.signal = here.broadcast(bytes([self.signal or 0]))[0] or None
        return self.signal is not None

    def end(self) -> BaseException:
        """The exception that ends the run: KeyboardInterrupt, or SystemExit with SIGTERM's exit
        code.
        """
        return SystemExit(TERMINATED) if self.signal == signal.SIGTERM else KeyboardInterrupt()


@contextmanager
def finishing_steps() -> Iterator[Interrupt]:
    """In the block, the first signal is only recorded. Handlers are not changed in a thread other
    than the main one, for a SIGINT that the program ignores, nor for a SIGTERM that it handles
    itself.
    """
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if before[signal.SIGINT] in (signal.SIG_IGN, None):
        del before[signal.SIGINT]
    if before[signal.SIGTERM] is not signal.SIG_DFL:
        del before[signal.SIGTERM]

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def record(number: int, frame: FrameType | None) -> None:
        interrupt.signal = number
        restore()

    for number in before:
        signal.signal(number, record)
    try:
        yield interrupt
    finally:
        restore()
