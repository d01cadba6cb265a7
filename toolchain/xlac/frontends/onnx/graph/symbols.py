"""Symbolic sizes of an ONNX model: equal names are the same symbol; text that is an expression over
names is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from xlac.frontends.sizes import OPT, DimValue, sized
from xlac.ir.dims import Dim, Symbol, symbol
from xlac.ir.dims import symbols as symbols_of


class Symbols(dict[str, Dim]):
    """Sizes by the text of `dim_param`, created on demand; `given` fixes or bounds them."""

    def __init__(self, given: Mapping[str, DimValue]) -> None:
        super().__init__()
        self.given = given
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
