"""Time limits of calls, and stopping calls from other threads; every executable checks these
between its steps.
"""

from __future__ import annotations

import ctypes
import threading
import time
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Self

from xlac_sdk.source import DeadlineError, Diagnostic, LimitError, SourceError

if TYPE_CHECKING:
    from xlac_sdk.programs.program import Program

LONG = "may run long"  # a fact of programs loaded without steps

_current: ContextVar[timeout | None] = ContextVar("xlac limit", default=None)
# how many limits are active, over all threads, for the fast paths of calls
_active = ctypes.c_int32(0)
ACTIVE_ADDRESS = ctypes.addressof(_active)
_lock = threading.Lock()


class timeout:
    """A context that limits calls of programs in this thread or task to some seconds in total.

        with xlac.timeout(2.0) as limit:
            y = model(x)

    The call that exceeds the limit, and every later one, raises DeadlineError. `limit.stop()`, from
    any thread, ends the running call, and every later one in the block, with LimitError; with None
    there is no time limit. Blocks may be nested; the earliest limit applies. The outputs of a call
    that ended so are undefined; a model's state is as before the call, unless docs/SPEC.md says
    otherwise.
    """

    def __init__(self, seconds: float | None) -> None:
        if seconds is not None and not seconds >= 0:
            raise ValueError(f"a time-out of {seconds} seconds")
        self.seconds = seconds
        self._end: float | None = None
        self._flag = ctypes.c_int32(0)
        self._outer: timeout | None = None
        self._inner: list[timeout] = []
        self._token: Token[timeout | None] | None = None

    def __enter__(self) -> Self:
        if self._token is not None:
            raise RuntimeError("this time-out is in use")
        outer = _current.get()
        self._end = None if self.seconds is None else time.monotonic() + self.seconds
        if outer is not None and outer._end is not None:
            self._end = outer._end if self._end is None else min(self._end, outer._end)
        with _lock:
            self._flag.value = 0 if outer is None else outer._flag.value
            self._outer = outer
            if outer is not None:
                outer._inner.append(self)
            _active.value += 1
        self._token = _current.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._token is not None
        _current.reset(self._token)
        self._token = None
        with _lock:
            _active.value -= 1
            if self._outer is not None:
                self._outer._inner.remove(self)

    def stop(self) -> None:
        """Ends the running call of the block, if any, and prevents others. May be called from any
        thread.
        """
        with _lock:
            self._stop()

    def _stop(self) -> None:
        self._flag.value = 1
        for one in self._inner:
            one._stop()


def limited() -> bool:
    """Whether any thread has a limit."""
    return _active.value != 0


def check() -> None:
    """Raises DeadlineError when this thread's time limit is exceeded, LimitError when it was
    stopped.
    """
    limit = _current.get() if _active.value else None
    if limit is None:
        return
    if limit._flag.value:
        raise asked()
    if limit._end is not None and time.monotonic() >= limit._end:
        raise late()


def left() -> float | None:
    """The seconds left for this thread's calls; None without a limit."""
    limit = _current.get() if _active.value else None
    return None if limit is None or limit._end is None else limit._end - time.monotonic()


def flag_address() -> int:
    """The address of a 32-bit word that becomes nonzero when this thread's calls are to stop; 0
    where nothing can stop them.
    """
    limit = _current.get() if _active.value else None
    return 0 if limit is None else ctypes.addressof(limit._flag)


def may_run_long(program: Program) -> bool:
    """Whether a call may run so long that it must check for stop requests."""
    if LONG in program.facts:
        return bool(program.facts[LONG])
    from xlac_sdk.lowering.stop_checks import of_entries

    return bool(program.steps) and of_entries(program)[0].long


def torn() -> SourceError:
    """The error for a model whose state was left half-updated by a stopped call."""
    problem = "a call was stopped when it had changed a part of the model's state"
    return SourceError(
        Diagnostic("XL6041", problem, hint="call reset(): the state is zero again then")
    )


def late() -> DeadlineError:
    """The error for an exceeded time limit."""
    limit = _current.get()
    given = "" if limit is None or limit.seconds is None else f" of {limit.seconds:g} s"
    return DeadlineError(Diagnostic("XL4041", f"the call took longer than the time-out{given}"))


def asked() -> LimitError:
    """The error for a call stopped by another thread."""
    return LimitError(Diagnostic("XL4042", "the call was stopped"))
