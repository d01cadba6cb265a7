"""How callers write the size that a symbol is to have, or the range that it is narrowed to."""

from __future__ import annotations

import re


def read(text: str, least: int, most: int) -> tuple[int, int] | None:
    """The ends of `8`, `1..8`, `4..`, `..8` or `..`, where what is left out is `least` or `most`;
    None for other text.
    """
    found = re.fullmatch(r"\s*(?:(\d{1,18})|(\d{0,18})\s*\.\.\s*(\d{0,18}))\s*", text)
    if found is None:
        return None
    if found[1]:
        return int(found[1]), int(found[1])
    return int(found[2] or least), int(found[3] or most)
