"""Paths of nodes in a model, such as `encoder.0.up`, and the patterns that users write for them."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import accumulate


def fits(path: str, pattern: str) -> bool:
    """Whether a pattern such as `encoder.*` names a path, or what contains it: a block, a loop."""
    return any(fnmatchcase(part, pattern) for part in containers(path))


def containers(path: str) -> Iterator[str]:
    """A path and those of what contains it, the outermost first: a, a.b, a.b.c for a.b.c."""
    return accumulate(path.split("."), "{}.{}".format)
