"""Counts in messages."""

from __future__ import annotations


def number_of(count: int, one: str, more: str = "") -> str:
    """A count with its noun: "1 kernel", "0 kernels", "1,024 axes" (`more` where the plural of
    `one` is not made by an s).
    """
    return f"{count:,} {one if count == 1 else more or one + 's'}"
