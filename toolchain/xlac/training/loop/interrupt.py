"""Ctrl-C in a run: the step is finished first. Pressed twice, it acts at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """Whether ctrl-C was pressed."""

    def __init__(self) -> None:
        self.pressed = False


@contextmanager
def finishing_steps() -> Iterator[Interrupt]:
    """Inside, the first ctrl-C is only noted. In a thread that is not the main one, and where the
    program has ctrl-C ignored, everything stays as it is.
    """
    found = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield found
        return
    before = signal.getsignal(signal.SIGINT)
    if before in (signal.SIG_IGN, None):
        yield found
        return

    def pressed(number: int, frame: FrameType | None) -> None:
        found.pressed = True
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, pressed)
    try:
        yield found
    finally:
        signal.signal(signal.SIGINT, before)
