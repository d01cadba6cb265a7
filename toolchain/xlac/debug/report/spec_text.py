"""The files that a model was written in, and places in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xlac_sdk.source import Origin

LARGE = 2_000_000
"""Files of more bytes are not put into a report."""


class SpecText:
    """The files that origins refer to, in the order in which they are met."""

    def __init__(self) -> None:
        self.files: dict[Path, int] = {}

    def place(self, origin: Origin | None) -> tuple[int, ...]:
        """The number of a file and a line in it, from 1; nothing where there is no place."""
        if origin is None or origin.span is None:
            return ()
        file = origin.span.file
        return self.files.setdefault(file, len(self.files)), origin.span.line

    def json(self) -> list[dict[str, Any]]:
        """The files with their text; without it where a file cannot be read, or is no short
        text.
        """
        return [{"name": file.name, "text": _text(file)} for file in self.files]


def _text(file: Path) -> str | None:
    try:
        return None if file.stat().st_size > LARGE else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
