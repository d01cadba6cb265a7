"""JSON schemas as functions: each takes a value and its path, and returns the value or raises
`Wrong`.

For files that must be read before they can be trusted, and quickly: a schema library takes longer
to import than an artefact to load. Nothing is converted: `true` is not a number, `1.0` not a count,
and unknown fields of a record are errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from enum import Enum
from typing import Any

Check = Callable[[Any, str], Any]
LARGEST = 1 << 63
DEEPEST = 32  # the most nesting of uninterpreted JSON


class Wrong(ValueError):
    """A value that violates its schema; the text has its path."""


def wrong(place: str, wanted: str, value: Any) -> Wrong:
    """The error for a value that violates its schema."""
    shown = repr(value)
    return Wrong(
        f"{place}: must be {wanted}, not {shown if len(shown) <= 60 else shown[:57] + '...'}"
    )


def count(least: int = 0, most: int = (1 << 50) - 1) -> Check:
    """A whole number within bounds."""

    def check(value: Any, place: str) -> int:
        if type(value) is not int or not least <= value <= most:
            raise wrong(place, f"a whole number from {least} to {most}", value)
        return value

    return check


def text(pattern: str = "", longest: int = 4096) -> Check:
    """Text that can be encoded as UTF-8, and matches the pattern, if any."""

    def check(value: Any, place: str) -> str:
        if (
            not isinstance(value, str)
            or len(value) > longest
            or "\0" in value
            or (pattern and not re.fullmatch(pattern, value))
        ):
            raise wrong(
                place,
                f"text{' like ' + pattern if pattern else ''} of at most {longest} characters",
                value,
            )
        try:
            value.encode()
        except UnicodeEncodeError:
            raise wrong(place, "text", value) from None
        return value

    return check


def boolean(value: Any, place: str) -> bool:
    """Reads true or false."""
    if not isinstance(value, bool):
        raise wrong(place, "true or false", value)
    return value


def member(kind: type[Enum]) -> Check:
    """The value of one of an enumeration's members."""
    known = {one.value: one for one in kind}

    def check(value: Any, place: str) -> Enum:
        if not isinstance(value, str) or value not in known:
            raise wrong(place, f"one of {', '.join(known)}", value)
        return known[value]

    return check


def many(of: Check, most: int = 1 << 20, least: int = 0) -> Check:
    """A list, returned as a tuple."""

    def check(value: Any, place: str) -> tuple[Any, ...]:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise wrong(place, f"a list of {least} to {most}", value)
        return tuple(of(one, f"{place}.{number}") for number, one in enumerate(value))

    return check


def table(key: Check, of: Check, most: int = 1 << 20) -> Check:
    """An object with keys of one kind and values of another."""

    def check(value: Any, place: str) -> dict[str, Any]:
        if not isinstance(value, dict) or len(value) > most:
            raise wrong(place, f"an object of at most {most}", value)
        return {key(name, place): of(one, f"{place}.{name}") for name, one in value.items()}

    return check


def anything(value: Any, place: str, depth: int = 0) -> Any:
    """Any JSON with limited nesting and numbers."""
    if depth > DEEPEST:
        raise Wrong(f"{place}: nested more than {DEEPEST} deep")
    if isinstance(value, int) and abs(value) >= LARGEST:
        raise wrong(place, "a number below 2^63", value)
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            anything(part, place, depth + 1)
    return value


def record(kind: type[Any], checks: Mapping[str, Check]) -> Check:
    """An object as a dataclass: its fields and no others, each validated by its check; fields with
    a default may be omitted.
    """
    needed = {
        field.name
        for field in fields(kind)
        if field.default is MISSING and field.default_factory is MISSING
    }
    if checks.keys() != {field.name for field in fields(kind)}:
        raise TypeError(f"{kind.__name__} has other fields than its schema")

    def check(value: Any, place: str) -> Any:
        if not isinstance(value, dict):
            raise wrong(place or "all of it", "an object", value)
        if value.keys() - checks.keys():
            raise wrong(
                place or "all of it",
                f"without {min(map(str, value.keys() - checks.keys()))!r}",
                value,
            )
        if needed - value.keys():
            raise wrong(place or "all of it", f"with {min(needed - value.keys())!r}", value)
        dot = f"{place}." if place else ""
        return kind(**{name: checks[name](one, f"{dot}{name}") for name, one in value.items()})

    return check
