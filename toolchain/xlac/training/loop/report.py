"""Where a run reports its progress."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class RunReport(Protocol):
    """Receives the progress of a run, to show it to a user."""

    def say(self, text: str) -> None:
        """Reports a message, such as a warning, in one line."""

    def count(self, what: str, done: int, total: int) -> None:
        """Reports that `done` of `total` units of an activity are done; total 0 is unknown."""

    def row(self, row: Mapping[str, float]) -> None:
        """Reports a new row of metrics.csv."""


class SilentReport:
    """Ignores all progress."""

    def say(self, text: str) -> None:
        """Ignored."""

    def count(self, what: str, done: int, total: int) -> None:
        """Ignored."""

    def row(self, row: Mapping[str, float]) -> None:
        """Ignored."""
