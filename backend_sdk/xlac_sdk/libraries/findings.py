"""What is found out about a machine while programs run, such as which of a library's engines it is
to use, kept for the next process.

Who runs programs gives an executable a place for that, by its `remember(findings)` if it has one.
What is found there may be anybody's: whoever asks checks it.
"""

from __future__ import annotations

from typing import Protocol


class Findings(Protocol):
    """A place for short texts, each by the texts that decide it. Nothing is raised: it may
    forget.
    """

    def find(self, *key: str) -> str | None:
        """What was kept, if it still is."""

    def keep(self, told: str, about: str, *key: str) -> None:
        """Keeps a text; `about` says for people what it is about."""


class Nothing:
    """Remembers nothing."""

    def find(self, *key: str) -> str | None:
        """Nothing was found before."""
        return None

    def keep(self, told: str, about: str, *key: str) -> None:
        """Keeps nothing."""
