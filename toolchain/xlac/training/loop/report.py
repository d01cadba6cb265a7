"""Who hears how a run goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class RunReport(Protocol):
    """Hears of a run: a command shows it."""

    def say(self, text: str) -> None:
        """A line that is to be read, warnings among them."""

    def count(self, what: str, done: int, total: int) -> None:
        """What is done now, how much of it, and of how much (0: nobody knows)."""

    def row(self, row: Mapping[str, float]) -> None:
        """A row of metrics.csv."""


class Silence:
    """Nobody hears."""

    def say(self, text: str) -> None:
        """Nothing."""

    def count(self, what: str, done: int, total: int) -> None:
        """Nothing."""

    def row(self, row: Mapping[str, float]) -> None:
        """Nothing."""
