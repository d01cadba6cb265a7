"""Parses ranges of a symbolic size: a value, or bounds."""

from __future__ import annotations

import re


def read(text: str, least: int, most: int) -> tuple[int, int] | None:
    """The ends of `8`, `1..8`, `4..`, `..8` or `..`, where what is left out is `least` or `most`;
    None for other text.
    """
    match = re.fullmatch(r"\s*(?:(\d{1,18})|(\d{0,18})\s*\.\.\s*(\d{0,18}))\s*", text)
    if match is None:
        return None
    if match[1]:
        return int(match[1]), int(match[1])
    return int(match[2] or least), int(match[3] or most)
