"""Names of the nodes of one graph: those of the source where they can stand in an expression, else
cleaned.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Collection, Iterable

from xlac.spec.schema.fields import MAX_NAME

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.(?:[0-9]+|[A-Za-z_][A-Za-z0-9_]*))*")
_WORDS = frozenset({*keyword.kwlist, "true", "false", "inf", "nan"})
_ROOM = 16  # characters kept free for what makes a name unique


def clean(name: str) -> str:
    """A name that an expression can hold: the same where it is one, always the same for the same
    name.

    '/encoder/layer.0/MatMul' becomes 'encoder.layer.0.MatMul', and '123' 'n123'.
    """
    if (
        _PLAIN.fullmatch(name)
        and len(name) <= MAX_NAME - _ROOM
        and not _WORDS.intersection(name.split("."))
    ):
        return name
    parts = [re.sub(r"[^A-Za-z0-9_]+", "_", part).strip("_") for part in re.split(r"[/.:]+", name)]
    cleaned = ".".join(_part(part, first=not n) for n, part in enumerate(filter(None, parts)))
    return cleaned[: MAX_NAME - _ROOM].rstrip(".") or "n"


def _part(part: str, first: bool) -> str:
    if part in _WORDS:
        return f"{part}_"
    if part[0].isdigit() and (first or not part.isdigit()):
        return f"n{part}"
    return part


def public(name: str) -> str:
    """The name of an input, an output or a size as a spec can hold it, which is nearly any text."""
    same = (
        name == name.strip() and name.isprintable() and unicodedata.normalize("NFKC", name) == name
    )
    return name if same and 0 < len(name) <= MAX_NAME and "$" not in name else clean(name)


class Names:
    """Names that are taken in one graph."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = set(taken)

    def one(self, wanted: str, whole: bool = True, members: Collection[str] = ()) -> str:
        """A name that nothing has yet: as wanted, or where that is taken or not for the whole, a
        part of it.

        `members` are what follows a dot after the name: what `name.member` says must be free as
        well.
        """
        name, number = wanted, 0
        while not whole or self._clash(name, members):
            number += 1
            name, whole = f"{wanted}~{number}", True
        self.taken |= {name, *(f"{name}.{member}" for member in members)}
        return name

    def plain(self, wanted: str) -> str:
        """A name that nothing has yet, for something that had none: numbered when it is taken."""
        name, number = wanted, 1
        while name in self.taken:
            number += 1
            name = f"{wanted}_{number}"
        self.taken.add(name)
        return name

    def _clash(self, name: str, members: Collection[str]) -> bool:
        return name in self.taken or any(f"{name}.{member}" in self.taken for member in members)
