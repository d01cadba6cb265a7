"""Names of the nodes of a graph: the source's names where they are valid in expressions, else
cleaned.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Collection, Iterable

from xlac.spec.schema.fields import MAX_NAME
from xlac_sdk.support.unused_names import unused_name

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.(?:[0-9]+|[A-Za-z_][A-Za-z0-9_]*))*")
_WORDS = frozenset({*keyword.kwlist, "true", "false", "inf", "nan"})
_ROOM = 16  # characters reserved for making a name unique


def clean(name: str) -> str:
    """A valid name in expressions: the same name where it is one; equal names give equal results.

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
    """The name of an input, output or size in a spec, where nearly any text is valid."""
    same = (
        name == name.strip() and name.isprintable() and unicodedata.normalize("NFKC", name) == name
    )
    return name if same and 0 < len(name) <= MAX_NAME and "$" not in name else clean(name)


class Names:
    """The names used in one graph."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = set(taken)

    def one(self, wanted: str, whole: bool = True, members: Collection[str] = ()) -> str:
        """An unused name: the wanted one or, where that is used or stands for more than the value
        (not `whole`), the name of a part, `wanted~1` and so on.

        `members` are suffixes after a dot: each `name.member` must be unused as well.
        """
        name, number = wanted, 0
        while not whole or self._clash(name, members):
            number += 1
            name, whole = f"{wanted}~{number}", True
        self.taken |= {name, *(f"{name}.{member}" for member in members)}
        return name

    def plain(self, wanted: str) -> str:
        """An unused name for a node without one: numbered when it is used."""
        return unused_name(wanted, self.taken)

    def _clash(self, name: str, members: Collection[str]) -> bool:
        return name in self.taken or any(f"{name}.{member}" in self.taken for member in members)
