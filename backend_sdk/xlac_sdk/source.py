"""Places in source files, and diagnostics that refer to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Span:
    """A range within one line of a file; lines and columns count from 1."""

    file: Path
    line: int
    column: int
    width: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def excerpt(self) -> str:
        """The source line with carets under the range; empty if the file cannot be read."""
        try:
            lines = self.file.read_text(encoding="utf-8", errors="replace").splitlines()
            text = lines[self.line - 1]
        except (OSError, IndexError):
            return ""
        start = max(0, self.column - 61) if len(text) > 120 else 0
        shown = "".join(c if c.isprintable() else " " for c in text[start : start + 120])
        width = max(1, min(self.width, len(shown) - (self.column - 1 - start)))
        return f"{self.line:>5} | {shown}\n{'|':>7} {' ' * (self.column - 1 - start)}{'^' * width}"


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a value: its path in the model (`layer.0.h1`) and its place in the file."""

    name: str
    span: Span | None = None

    def __str__(self) -> str:
        return f"{self.name} ({self.span})" if self.span else self.name


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error: the message, its place and, if known, a hint how to fix it.

    `code` is a stable number such as ``XL1004``; `xlac explain CODE` explains it.
    """

    code: str
    message: str
    span: Span | None = None
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.span}: " if self.span else ""
        excerpt = self.span.excerpt() if self.span else ""
        parts = [f"{place}error: {self.message} [{self.code}]"]
        if excerpt:
            parts.append(excerpt)
        if self.hint:
            parts.append(f"        hint: {self.hint}")
        return "\n".join(parts)


class XlacError(Exception):
    """Base class of errors that xlac reports to a user instead of a traceback. `exit_code` is the
    command's.
    """

    exit_code = 2

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__("\n".join(map(str, diagnostics)))
        self.diagnostics: Sequence[Diagnostic] = diagnostics


class SourceError(XlacError):
    """A mistake in the user's input: all diagnostics for one input, reported together."""

    exit_code = 2


class UnsupportedError(XlacError):
    """The target does not support what was asked."""

    exit_code = 3


class UnavailableError(UnsupportedError):
    """What was asked is supported, but not on this machine: a tool, a driver or a device is
    missing, or the processor is another one.
    """


class LimitError(XlacError):
    """A resource limit (memory, size, time) would be exceeded."""

    exit_code = 4


class DeadlineError(LimitError, TimeoutError):
    """A call exceeded its time-out."""


class VerifyError(Exception):
    """A kernel or program that violates its rules: a compiler bug, found before anything runs."""
