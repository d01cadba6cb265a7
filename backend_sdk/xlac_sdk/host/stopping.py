"""Time-outs of calls, and a way for other threads to end them: what every executable asks between
its steps.
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

LONG = "may run long"  # of a program's facts, where it has no steps to tell

_current: ContextVar[timeout | None] = ContextVar("xlac limit", default=None)
# how many are entered, in all threads: quick ways into programs look at it
_active = ctypes.c_int32(0)
ACTIVE_ADDRESS = ctypes.addressof(_active)
_lock = threading.Lock()


class timeout:
    """Calls of programs in a `with` block of this thread or task are over after so many seconds,
    all together.

        with xlac.timeout(2.0) as limit:
            y = model(x)

    The call that is running then, and every later one, raises DeadlineError. `limit.stop()`, from
    any thread, ends the call that is running, and every later one in the block, with LimitError;
    None for seconds leaves it at that. Blocks may be nested; the one that is over first counts.
    What a call that ended so has written to its outputs is undefined; a model's state is as before
    the call, unless docs/SPEC.md says otherwise.
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
        """Ends the call that runs in the block, if one does, and lets no other begin. May be called
        from any thread.
        """
        with _lock:
            self._stop()

    def _stop(self) -> None:
        self._flag.value = 1
        for one in self._inner:
            one._stop()


def limited() -> bool:
    """Whether some thread has a limit."""
    return _active.value != 0


def check() -> None:
    """Raises DeadlineError when the time of this thread's calls is over, LimitError when they are
    to stop.
    """
    limit = _current.get() if _active.value else None
    if limit is None:
        return
    if limit._flag.value:
        raise asked()
    if limit._end is not None and time.monotonic() >= limit._end:
        raise late()


def left() -> float | None:
    """The seconds that this thread's calls have left; None without a limit."""
    limit = _current.get() if _active.value else None
    return None if limit is None or limit._end is None else limit._end - time.monotonic()


def flag_address() -> int:
    """Where a 32-bit word becomes non-zero when this thread's calls are to stop; 0 where nobody can
    want that.
    """
    limit = _current.get() if _active.value else None
    return 0 if limit is None else ctypes.addressof(limit._flag)


def may_run_long(program: Program) -> bool:
    """Whether a call may take so long that it checks whether to stop."""
    if LONG in program.facts:
        return bool(program.facts[LONG])
    from xlac_sdk.lowering.stop_checks import of_entries

    return bool(program.steps) and of_entries(program)[0].long


def torn() -> SourceError:
    """What calls raise whose model's state was half changed when one was stopped."""
    problem = "a call was stopped when it had changed a part of the model's state"
    return SourceError(
        Diagnostic("XL6041", problem, hint="call reset(): the state is zero again then")
    )


def late() -> DeadlineError:
    """What a call raises that has no time left."""
    limit = _current.get()
    given = "" if limit is None or limit.seconds is None else f" of {limit.seconds:g} s"
    return DeadlineError(Diagnostic("XL4041", f"the time-out{given} is over, and the call was not"))


def asked() -> LimitError:
    """What a call raises that another thread has stopped."""
    return LimitError(Diagnostic("XL4042", "the call was stopped"))
