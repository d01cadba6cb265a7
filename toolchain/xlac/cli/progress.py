"""Shows the progress of long work on standard error, on terminals only: a line that is removed
before other output.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Any, Self

DELAY = 0.5  # seconds of work before the line appears


class Progress:
    """A line with the running stage and its progress, removed at the end of the block.

    Inside the block `current()` is this one. Output of the block passes through: the line is
    removed first, and reappears after half a second without output.
    """

    def __init__(self, what: str = "") -> None:
        self._what, self._done, self._total, self._bytes = what, 0, 0, False
        self._shows = False
        self._bar: Any = None
        self._task: Any = None
        self._timer: threading.Timer | None = None
        self._lock = threading.RLock()
        self._before: Progress | None = None
        self._streams: tuple[Any, Any] | None = None

    def __enter__(self) -> Self:
        global _current
        self._before, _current = _current, self
        if sys.stderr.isatty():
            self._shows, self._streams = True, (sys.stdout, sys.stderr)
            sys.stdout, sys.stderr = _Through(sys.stdout, self), _Through(sys.stderr, self)
            self._arm()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        global _current
        _current = self._before
        with self._lock:
            self._shows = False
            self._hide()
        if self._streams is not None:
            sys.stdout, sys.stderr = self._streams

    def stage(self, what: str) -> None:
        """Sets the name of the running stage."""
        self._tell(what, 0, 0, False)

    def update(self, done: int, total: int) -> None:
        """Shows that `done` of `total` bytes of the stage are done."""
        self._tell(self._what, done, total, True)

    def count(self, what: str, done: int, total: int) -> None:
        """Sets the activity, and shows that `done` of `total` units are done."""
        self._tell(what, done, total, False)

    def _tell(self, what: str, done: int, total: int, are_bytes: bool) -> None:
        with self._lock:
            self._what, self._done, self._total, self._bytes = what, done, total, are_bytes
            if self._bar is not None:
                self._bar.update(
                    self._task,
                    description=self._text(),
                    completed=done,
                    total=total or None,
                    amount=self._amount(),
                )

    def _text(self) -> str:
        from rich.markup import escape

        return escape(self._what if len(self._what) <= 60 else self._what[:59] + "…")

    def _amount(self) -> str:
        if not self._total:
            return ""
        if not self._bytes:
            return f"{self._done:,} of {self._total:,}"
        return f"{self._done / 1e6:,.1f} of {self._total / 1e6:,.1f} MB"

    def _arm(self) -> None:
        self._timer = threading.Timer(DELAY, self._show)
        self._timer.daemon = True
        self._timer.start()

    def _show(self) -> None:
        from rich import progress
        from rich.console import Console

        with self._lock:
            if not self._shows or self._bar is not None or self._streams is None:
                return
            columns: list[str | progress.ProgressColumn] = [
                progress.SpinnerColumn(),
                "{task.description}",
                progress.BarColumn(),
                "{task.fields[amount]}",
                progress.TimeElapsedColumn(),
            ]
            console = Console(file=self._streams[1])
            self._bar = progress.Progress(
                *columns,
                console=console,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._task = self._bar.add_task(
                self._text(), total=self._total or None, completed=self._done, amount=self._amount()
            )
            self._bar.start()

    def _hide(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def aside(self) -> None:
        """Removes the line before other output."""
        with self._lock:
            self._hide()
            if self._shows:
                self._arm()


class ProgressLines:
    """Progress as lines on standard error, one every half minute, where there is no terminal."""

    SECONDS = 30

    def __init__(self) -> None:
        self._start = self._printed = time.monotonic()

    def count(self, what: str, now: str, done: int, total: int) -> None:
        """Prints, if it is time, that `done` of `total` units are done and `now` is running."""
        moment = time.monotonic()
        if moment - self._printed >= self.SECONDS and not sys.stderr.isatty():
            self._printed = moment
            seconds = f"{moment - self._start:.0f} s"
            print(f"{done:,} of {total:,}, {what}, {seconds}: {now}", file=sys.stderr, flush=True)


_current: Progress | None = None


def current() -> Progress:
    """The active progress line, or one that shows nothing."""
    return _current or Progress()


class _Through:
    """A stream that removes the progress line before writing."""

    def __init__(self, stream: Any, progress: Progress) -> None:
        self._stream, self._progress = stream, progress

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            self._progress.aside()
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._progress.aside()
        return int(self._stream.write(text))
