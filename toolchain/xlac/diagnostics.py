"""Every numbered diagnostic: what it means and what to do about it. `xlac explain XL1234` prints an
entry of `diagnostics.txt`, or of the file of that name which a backend brings.

XL1xxx a spec's text and schema · XL2xxx names, shapes, types · XL3xxx weights and files · XL4xxx
limits · XL5xxx backends and targets · XL6xxx inputs of a call, training's data and runs · XL7xxx
importers · XL9xxx ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from xlac_sdk.host.registry import diagnostics
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.choices import similar


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A diagnostic's number, its title, and more about it than fits in a message."""

    code: str
    title: str
    text: str


def explain(code: str) -> str:
    """The entry of a code as text. Raises SourceError for an unknown one."""
    entry = catalogue().get(code)
    if entry is None:
        close = similar(code, catalogue(), 3)
        raise SourceError(
            Diagnostic(
                "XL2001",
                f"there is no diagnostic {code}",
                hint=f"near it: {', '.join(close)}" if close else "",
            )
        )
    return f"{entry.code}: {entry.title}\n\n{entry.text}"


def _entries(text: str) -> dict[str, CatalogueEntry]:
    entries: dict[str, CatalogueEntry] = {}
    for part in text.strip().split("\n\n"):
        head, _, body = part.partition("\n")
        code, _, title = head.partition(" ")
        assert code not in entries, f"{code} is catalogued twice"
        entries[code] = CatalogueEntry(code, title, body)
    return entries


@cache
def catalogue() -> dict[str, CatalogueEntry]:
    """The entries by code: those of the toolchain and the SDK, and those of the installed backends,
    which cannot replace the former.
    """
    own = _entries(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8"))
    entries: dict[str, CatalogueEntry] = {}
    for text in diagnostics().values():
        entries |= _entries(text)
    return entries | own
