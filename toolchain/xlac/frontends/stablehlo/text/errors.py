"""Errors of the importer with the place in the text, and limits against hostile files."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import NoReturn

from xlac_sdk.source import Diagnostic, LimitError, SourceError, Span

TEXT = Path("<stablehlo>")
"""The file name shown for a module that was passed as text."""
DEPTH = 64
"""The most nesting of regions, types, attributes and calls."""
OPERATIONS = 2_000_000
"""The most operations that an import may build, counting inlined calls each time."""
ELEMENTS = 2**31
"""The most elements of a constant."""


class MlirSource:
    """The text of a module, and the offsets of its lines."""

    def __init__(self, text: str, file: Path = TEXT) -> None:
        self.text, self.file = text, file
        self._lines: list[int] = []

    def span(self, at: int, width: int = 1) -> Span:
        """The source span of an offset."""
        if not self._lines:
            self._lines = [0, *(i + 1 for i, c in enumerate(self.text) if c == "\n")]
        line = bisect_right(self._lines, at)
        return Span(self.file, line, at - self._lines[line - 1] + 1, width)

    def fail(self, code: str, message: str, at: int, width: int = 1, hint: str = "") -> NoReturn:
        """Raises SourceError with a place in the text."""
        raise SourceError(Diagnostic(code, message, self.span(at, width), hint))

    def too_much(self, message: str, at: int) -> NoReturn:
        """Raises LimitError with a place in the text."""
        raise LimitError(Diagnostic("XL7205", message, self.span(at)))
