"""Why a kernel is generated where the target has a library."""

from __future__ import annotations


class LibraryRefused(Exception):
    """The library does not compute a group; its text says why, for people."""
