"""Limits of one compilation: operations made, seconds and bytes, checked while it runs.

`within` sets the limits for what is done inside. Code that makes operations calls
`count_operation` for each, which counts them and periodically checks the clock and the memory, as
`count_work` does for other small work; stages call `checkpoint("name of the stage")`, and
`checkpoint()` before each long part of one. Work in another process is given `left()` seconds and
`room()` bytes, so that it can be killed. Nothing is measured if nothing is limited.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import NoReturn

from xlac_sdk.source import Diagnostic, LimitError

OPERATIONS = 1_000_000
"""The most operations that the reader of a model may make, including those that it discards."""
OFTEN = 64  # operations, or other small work, between two checks of the clock and the memory


class Budget:
    """The remaining budget of a compilation. A nested one is limited by both."""

    __slots__ = ("before", "count", "end", "memory", "most", "outer", "seconds", "stage", "work")

    def __init__(
        self, seconds: float | None, memory: int | None, most: int | None, outer: Budget | None
    ) -> None:
        self.seconds, self.memory, self.most = seconds, memory, most
        self.end = None if seconds is None else time.monotonic() + seconds
        self.before = 0 if memory is None else resident()
        self.stage, self.count, self.work, self.outer = ["starting"], 0, 0, outer
        if outer is not None:
            rest = None if outer.most is None else max(0, outer.most - outer.count)
            self.most = min((n for n in (most, rest) if n is not None), default=None)
            # shared with the outer budget, which thus sees the stages inside
            self.stage = outer.stage
            if outer.end is not None and (self.end is None or outer.end < self.end):
                self.seconds, self.end = outer.seconds, outer.end
            if outer.memory is not None and (
                self.memory is None or outer.before + outer.memory < self.before + self.memory
            ):
                self.memory, self.before = outer.memory, outer.before

    def count_operation(self) -> None:
        """Counts an operation; raises LimitError if there are too many."""
        self.count += 1
        if self.most is not None and self.count > self.most:
            raise LimitError(Diagnostic("XL4018", f"more than {self.most:,} operations are made"))
        self.count_work()

    def count_work(self) -> None:
        """Records some work; periodically checks the limits."""
        self.work += 1
        if not self.work % OFTEN:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Raises LimitError if time or memory is exceeded."""
        if self.end is not None and time.monotonic() > self.end:
            self.late()
        if self.memory is not None and resident() - self.before > self.memory:
            self.full()

    def late(self) -> NoReturn:
        """Raises LimitError for the time."""
        raise LimitError(
            Diagnostic(
                "XL4031",
                f"compiling takes more than {self.seconds:g} s; it was at: {self.stage[0]}",
                hint=MORE,
            )
        )

    def full(self) -> NoReturn:
        """Raises LimitError for the memory."""
        raise LimitError(
            Diagnostic(
                "XL4032",
                f"compiling takes more than {self.memory:,} bytes; it was at: {self.stage[0]}",
                hint=MORE,
            )
        )


MORE = (
    "--max-compile-seconds and --max-compile-memory, or max_compile_seconds= and "
    "max_compile_memory=, set the limits"
)
_budget: ContextVar[Budget | None] = ContextVar("budget", default=None)


def valid(seconds: float | None, memory: int | None) -> None:
    """Raises LimitError unless the limits are numbers above 0."""
    for what, amount in (("seconds", seconds), ("memory", memory)):
        if amount is not None and (
            isinstance(amount, bool) or not isinstance(amount, int | float) or not amount > 0
        ):
            raise LimitError(
                Diagnostic(
                    "XL4031" if what == "seconds" else "XL4032",
                    f"max_compile_{what} must be a number above 0, not {amount!r}",
                )
            )


@contextmanager
def within(
    seconds: float | None = None, memory: int | None = None, operations: int | None = None
) -> Iterator[None]:
    """A scope in which LimitError is raised soon after a limit is exceeded: seconds of time, bytes
    beyond the current memory, operations.
    """
    valid(seconds, memory)
    outer = _budget.get()
    if seconds is None and memory is None and operations is None:
        yield
        return
    budget = Budget(seconds, memory, operations, outer)
    token = _budget.set(budget)
    try:
        yield
    finally:
        _budget.reset(token)
        if outer is not None:
            outer.count += budget.count


@contextmanager
def uncounted() -> Iterator[None]:
    """A scope in which nothing is limited, and whose time no scope around it counts."""
    budget, begun = _budget.get(), time.monotonic()
    token = _budget.set(None)
    try:
        yield
    finally:
        _budget.reset(token)
        while budget is not None:
            if budget.end is not None:
                budget.end += time.monotonic() - begun
            budget = budget.outer


def count_operation() -> None:
    """Counts an operation, a statement or the like."""
    budget = _budget.get()
    if budget is not None:
        budget.count_operation()


def count_work() -> None:
    """Records that a statement was written, a node visited or the like, in a stage that makes no
    operations.
    """
    budget = _budget.get()
    if budget is not None:
        budget.count_work()


_told: ContextVar[Callable[[str], object] | None] = ContextVar("told", default=None)


@contextmanager
def telling(tell: Callable[[str], object]) -> Iterator[None]:
    """A scope in which `tell` is called with each stage that begins."""
    token = _told.set(tell)
    try:
        yield
    finally:
        _told.reset(token)


def told() -> Callable[[str], object]:
    """What is called with each stage that begins here; outside of every scope it does nothing."""
    return _told.get() or (lambda stage: None)


def checkpoint(stage: str = "") -> None:
    """Begins a stage, which messages name; without a name, a long part of a stage, such as a
    kernel.
    """
    tell = _told.get()
    if tell is not None and stage:
        tell(stage)
    budget = _budget.get()
    if budget is not None:
        budget.checkpoint()
        if stage:
            budget.stage[0] = stage


def limited() -> bool:
    """Whether time or memory is limited, so that uninterruptible work should run in another
    process.
    """
    budget = _budget.get()
    return budget is not None and (budget.end is not None or budget.memory is not None)


def left() -> float | None:
    """The remaining seconds, at least a few milliseconds; None if time is not limited."""
    budget = _budget.get()
    return (
        None if budget is None or budget.end is None else max(0.005, budget.end - time.monotonic())
    )


def room() -> int | None:
    """The remaining bytes; None if memory is not limited."""
    budget = _budget.get()
    return (
        None
        if budget is None or budget.memory is None
        else max(1, budget.memory - (resident() - budget.before))
    )


def late() -> None:
    """Reports that work was killed after `left()` seconds. Raises LimitError if time is limited."""
    budget = _budget.get()
    if budget is not None and budget.end is not None:
        budget.late()


@contextmanager
def ended_in_time() -> Iterator[None]:
    """A scope around a process that is given `left()` seconds: raises LimitError if they were too
    few.
    """
    import subprocess

    try:
        yield
    except subprocess.TimeoutExpired:
        late()
        raise


def full() -> None:
    """Reports that `room()` bytes were too few. Raises LimitError if memory is limited."""
    budget = _budget.get()
    if budget is not None and budget.memory is not None:
        budget.full()


def resident() -> int:
    """The current memory of the process in bytes; its peak, if the system does not report the
    current one.
    """
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most << 10
