"""Collects mistakes in a spec, with suggestions, so that all are reported at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from xlac.spec.text.synonyms import ABSENT, SYNONYMS
from xlac.spec.text.tree import Path_, Source
from xlac_sdk.source import Diagnostic, SourceError, Span
from xlac_sdk.support.choices import similar


class Fault(Exception):
    """A mistake that prevents the elaboration of a value; elaboration continues with other
    entries.
    """

    def __init__(self, code: str, message: str, span: Span | None, hint: str = "") -> None:
        super().__init__(message)
        self.diagnostic = Diagnostic(code, message, span, hint)


class Poisoned(Exception):
    """A value depends on one whose mistake was already reported."""


class Attempts:
    """Elaborates several parts of a value, so that the mistakes of all of them are reported."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.failed = False

    @contextmanager
    def part(self) -> Iterator[None]:
        """Reports the mistake that ends the elaboration of one part."""
        try:
            yield
        except Fault as fault:
            self.report.fault(fault)
            self.failed = True
        except Poisoned:
            self.failed = True

    def finish(self) -> None:
        """Raises Poisoned if a part failed."""
        if self.failed:
            raise Poisoned


@dataclass(frozen=True, slots=True)
class Place:
    """A value in a file."""

    source: Source
    path: Path_ = ()

    def at(self, *keys: str | int) -> Place:
        """The place of a value inside this one."""
        return Place(self.source, self.path + keys)

    @property
    def span(self) -> Span:
        """The span of the value."""
        return self.source.span(self.path)

    @property
    def key(self) -> Span:
        """The place of the key instead of the value."""
        return self.source.key_span(self.path)

    def inside(self, offset: int, width: int) -> Span:
        """Characters within the text at this place."""
        return self.source.span(self.path, offset, width)


@dataclass
class Report:
    """Diagnostics in the order found; duplicates are dropped."""

    diagnostics: dict[Diagnostic, None] = field(default_factory=dict)
    # section and name of entries that could not be read
    broken: set[tuple[str, str]] = field(default_factory=set)

    def add(self, code: str, message: str, span: Span | None, hint: str = "") -> None:
        """Adds a mistake, unless it was reported before."""
        self.diagnostics[Diagnostic(code, message, span, hint)] = None

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Adds diagnostics."""
        self.diagnostics.update(dict.fromkeys(diagnostics))

    def fault(self, fault: Fault) -> None:
        """Adds the diagnostic of a Fault."""
        self.diagnostics[fault.diagnostic] = None

    def finish(self) -> None:
        """Raises SourceError if anything was found, sorted by place."""
        if self.diagnostics:
            order = sorted(
                self.diagnostics,
                key=lambda d: (
                    (d.span is None, str(d.span.file), d.span.line, d.span.column)
                    if d.span
                    else (True, "", 0, 0)
                ),
            )
            raise SourceError(*order)


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for an unknown name: the known word that it is a synonym or a misspelling of, or all
    known words when they are few.
    """
    words = [*dict.fromkeys(k for k in known if k)]  # may come from several lists
    plain = name.lower().replace("-", "_")
    if close := [
        w
        for w in words
        if w.lower() == plain or w.lower().replace("_", "") == plain.replace("_", "")
    ]:
        return f"did you mean {close[0]!r}?"
    if meant := [w for w in SYNONYMS.get(plain, ()) if w in words]:
        return f"did you mean {meant[0]!r}?"
    near = () if plain in ABSENT else words
    if close := similar(name, near, cutoff=0.75 if len(name) > 3 else 0.6):
        return f"did you mean {close[0]!r}?"
    if 0 < len(words) <= 8:
        return "known: " + ", ".join(sorted(words))
    return ""
