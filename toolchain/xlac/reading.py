"""Which files a model is read from: every reader notes those that it opens, for whoever wants to know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_noted: ContextVar[dict[Path, None] | None] = ContextVar("noted", default=None)


def note(file: Path) -> Path:
    """Says that a model depends on what is in a file."""
    found = _noted.get()
    if found is not None:
        found[file.absolute()] = None
    return file


@contextmanager
def noted() -> Iterator[dict[Path, None]]:
    """The files that are noted inside the block, in order."""
    found: dict[Path, None] = {}
    token = _noted.set(found)
    try:
        yield found
    finally:
        _noted.reset(token)
