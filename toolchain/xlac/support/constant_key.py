"""Compile-time constants as parts of a key for compiled programs."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any


def constant_key(value: Any) -> Hashable:
    """A constant as part of a key. Distinguishes 1, 1.0 and True, and 0.0 and -0.0, which are equal
    in Python; lists and tuples are compared element by element.
    """
    if isinstance(value, list | tuple):
        return type(value), tuple(map(constant_key, value))
    return type(value), repr(value) if isinstance(value, float | complex) else value
