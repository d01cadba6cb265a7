"""Symbolic sizes as text: ranges that users give, and what a file of a model states of a size."""

from __future__ import annotations

import re

from xlac.ir.dims import UNBOUNDED, Symbol

STATED = re.compile(
    r"(\d{1,18})\.\.(\d{0,18})(?: multiple_of (\d{1,18}))?(?: opt (\d{1,18}))?", re.ASCII
)
OPT = 1  # the size to optimise for where there is no upper bound


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


def size_text(size: Symbol) -> str:
    """What a model states of an open size: `1..8`, `4..`, `2..64 multiple_of 2 opt 16`; the size to
    optimise for only where a reader would choose another. "" where there is nothing to say.
    """
    by = f" multiple_of {size.multiple_of}" if size.multiple_of != 1 else ""
    usual = usual_opt(size.min, size.max, size.multiple_of)
    opt = f" opt {size.opt}" if size.opt != usual else ""
    if not size.min and size.max == UNBOUNDED and not by and not opt:
        return ""
    return f"{size.min}..{'' if size.max == UNBOUNDED else size.max}{by}{opt}"


def stated_size(name: str, text: str) -> int | Symbol | None:
    """The size that such a text is; None for any other text, and one without a value."""
    match = STATED.fullmatch(text)
    if match is None:
        return None
    low, high, by = int(match[1]), int(match[2] or UNBOUNDED), int(match[3] or 1)
    if high > UNBOUNDED or not by:
        return None
    low, high = -(-low // by) * by, high // by * by if match[2] else high
    if low > high:
        return None
    opt = usual_opt(low, high, by) if match[4] is None else int(match[4])
    if not low <= opt <= high or opt % by:
        return None
    return low if low == high else Symbol(name, low, high, opt, by)


def usual_opt(low: int, high: int, by: int = 1) -> int:
    """The size to optimise for where nothing says one."""
    opt = max(low, OPT) if high == UNBOUNDED else high
    return -(-opt // by) * by
