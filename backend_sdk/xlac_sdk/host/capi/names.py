"""Converts the user's names to identifiers that are valid in C, C++, Rust, file names and CMake
targets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from xlac_sdk.emit.cdialect import KEYWORDS

LONGEST = 63  # significant characters of identifiers in C99
RUST = frozenset(
    """abstract as async await become box crate dyn final fn gen impl in let loop macro
    match mod move mut override priv pub ref self super trait type unsafe unsized
    use where yield""".split()
)
OURS = frozenset("context memory memory_bytes weights weight_bytes sizes bytes status".split())


def identifier(name: str) -> str:
    """The prefix of a model's functions and files, from an arbitrary name."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")[:LONGEST].rstrip("_")
    return plain if plain and plain[0].isalpha() else f"model_{plain}".rstrip("_")


def parameters(names: Iterable[str], kind: str) -> tuple[str, ...]:
    """Names of parameters, one for each of `names`: lower case, as macros are upper case, and
    distinct.

    A name that does not begin with a letter, or is reserved, is prefixed with `kind`.
    """
    chosen: list[str] = []
    for name in names:
        plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:LONGEST].rstrip("_")
        if not plain or not plain[0].isalpha() or plain in KEYWORDS | RUST | OURS:
            plain = f"{kind}_{plain}".rstrip("_")
        unique, number = plain, 1
        while unique in chosen:
            number += 1
            unique = f"{plain}_{number}"
        chosen.append(unique)
    return tuple(chosen)
