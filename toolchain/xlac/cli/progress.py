"""How far long work has come, on standard error, and only where a person watches."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Self


class Progress:
    """A line that says which stage is running and how much of it is done. It goes when the work is done."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich import progress
            from rich.console import Console

            columns: list[str | progress.ProgressColumn] = [progress.SpinnerColumn(), "{task.description}", progress.BarColumn(), progress.DownloadColumn(), progress.TimeElapsedColumn()]
            self._bar = progress.Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def stage(self, what: str) -> None:
        """Says what is done from now on."""
        if self._bar is not None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(what, total=None)

    def update(self, done: int, total: int) -> None:
        """Says how many bytes of the stage are done, and of how many."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total)
