"""How `xlac train` shows the progress of a run."""

from __future__ import annotations

import time
from collections.abc import Mapping

import click

REPORT_INTERVAL = 0.1  # seconds between two reports of progress


class TerminalReport:
    """Shows a run on standard error: a line per epoch, and on terminals the progress of the present
    one.
    """

    def __init__(self, epochs: int | None) -> None:
        self._epochs, self._reported_at = epochs, 0.0

    def say(self, text: str) -> None:
        """Prints a line."""
        click.echo(text, err=True)

    def count(self, what: str, done: int, total: int) -> None:
        """Shows the progress, a few times per second."""
        from xlac.cli.progress import current

        now = time.monotonic()
        if done == total or now - self._reported_at >= REPORT_INTERVAL:
            self._reported_at = now
            current().count(what, done, total)

    def row(self, row: Mapping[str, float]) -> None:
        """Prints a row of metrics."""
        of = f"/{self._epochs}" if self._epochs is not None else ""
        shown = [
            f"{name} {row[name]:.4g}" for name in row if name not in ("epoch", "step", "seconds")
        ]
        line = (
            f"epoch {row['epoch']}{of}, step {row['step']}: "
            f"{', '.join(shown)} ({row['seconds']:.1f} s)"
        )
        click.echo(line, err=True)
