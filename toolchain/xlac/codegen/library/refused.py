"""The reason why a kernel is generated though the target has a library."""

from __future__ import annotations


class LibraryRefused(Exception):
    """The library does not compute a group; the text gives the reason, for users."""
