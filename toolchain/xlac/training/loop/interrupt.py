"""Ctrl-C in a run, and SIGTERM, with which a cluster takes its machine back: the step is finished first.
A second one acts at once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

TERMINATED = 128 + signal.SIGTERM  # the exit code of a program that SIGTERM ended


class Interrupt:
    """The signal that came, if any: ctrl-C (SIGINT) or SIGTERM."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def end(self) -> BaseException:
        """What a run raises that the signal ended: KeyboardInterrupt, or SystemExit with SIGTERM's
        exit code.
        """
        return SystemExit(TERMINATED) if self.signal == signal.SIGTERM else KeyboardInterrupt()


@contextmanager
def finishing_steps() -> Iterator[Interrupt]:
    """Inside, the first signal is only noted. In a thread that is not the main one everything stays
    as it is; so does a signal that the program ignores, and a SIGTERM that it handles itself.
    """
    found = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield found
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if before[signal.SIGINT] in (signal.SIG_IGN, None):
        del before[signal.SIGINT]
    if before[signal.SIGTERM] is not signal.SIG_DFL:
        del before[signal.SIGTERM]

    def put_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def came(number: int, frame: FrameType | None) -> None:
        found.signal = number
        put_back()

    for number in before:
        signal.signal(number, came)
    try:
        yield found
    finally:
        put_back()
