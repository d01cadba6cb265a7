"""Findings about a machine that persist between processes, such as which engine of a library is
fastest.

A program's caller gives an executable a place to store them, by its `remember(findings)` if it has
one. Stored findings are untrusted: readers must check them.
"""

from __future__ import annotations

from typing import Protocol


class Findings(Protocol):
    """A store of short texts, keyed by texts. Nothing is raised, and entries may be lost."""

    def find(self, *key: str) -> str | None:
        """The stored text, if it still exists."""

    def keep(self, value: str, about: str, *key: str) -> None:
        """Stores a text; `about` describes it for people."""


class Nothing:
    """Stores nothing."""

    def find(self, *key: str) -> str | None:
        """None: nothing is stored."""
        return None

    def keep(self, value: str, about: str, *key: str) -> None:
        """Discards the text."""
