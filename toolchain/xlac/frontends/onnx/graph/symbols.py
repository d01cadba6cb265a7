"""Symbolic sizes of an ONNX model: equal names are the same symbol; text that is an expression over
names is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from xlac.frontends.sizes import OPT, DimValue, sized
from xlac.ir.dims import Dim, Symbol, symbol
from xlac.ir.dims import symbols as symbols_of

BOUNDS = "xlac.size."  # keys of metadata that bound sizes
RANGE = re.compile(r"[0-9]{1,18}\.\.[0-9]{0,18}")


class Symbols(dict[str, Dim]):
    """Sizes by the text of `dim_param`, created on demand; `given` fixes or bounds them, else the
    model's metadata do: `xlac.size.batch` is `1..8`, as `xlac export` writes it.
    """

    def __init__(self, given: Mapping[str, DimValue], metadata: Iterable[Any] = ()) -> None:
        super().__init__()
        self.given = {
            entry.key.removeprefix(BOUNDS): entry.value
            for entry in metadata
            if entry.key.startswith(BOUNDS) and RANGE.fullmatch(entry.value)
        } | dict(given)
        self.names: set[str] = set()

    def __missing__(self, text: str) -> Dim:
        self[text] = dim = self._made(text)
        return dim

    def _made(self, text: str) -> Dim:
        if text in self.given:
            return sized(text, self.given[text])
        name = plain(text)
        while name in self.names:
            name += "_"
        self.names.add(name)
        return sized(name, self.given[name]) if name in self.given else symbol(name, opt=OPT)

    def open(self) -> dict[str, Symbol]:
        """The symbols that are still open, by name."""
        return {s.name: s for size in self.values() for s in symbols_of(size)}


def plain(text: str) -> str:
    """The closest name to the text that is legal in a spec."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")[:60] or "size"
    return name if name[0].isalpha() else f"size_{name}"
