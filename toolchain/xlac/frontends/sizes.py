"""Sizes of an imported model: its symbols, by the text that names them, and what a caller gives for
them: numbers, or ranges.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from xlac.ir import ranges
from xlac.ir.dims import UNBOUNDED, Dim, Sym, Symbol, symbol, symbols
from xlac_sdk.source import Diagnostic, SourceError

OPT = ranges.OPT  # the size to optimise for if the range does not include the default
DimValue = int | str | tuple[int, int] | Symbol


def sized(name: str, given: DimValue) -> Dim:
    """A size given as a number, or a range such as `1..8`. Raises SourceError."""
    if isinstance(given, Symbol):
        return Sym((((given,), 1),))
    if isinstance(given, tuple):
        low, high = given
    elif ends := ranges.read(str(given), 0, UNBOUNDED):
        low, high = ends
    else:
        raise SourceError(
            Diagnostic(
                "XL2014",
                f"{given!r} is not a valid size for '{name}'",
                hint=f"{name}=8 or {name}=1..8",
            )
        )
    if not 0 <= low <= high <= UNBOUNDED:
        raise SourceError(
            Diagnostic("XL2014", f"the range {low}..{high} of '{name}' is empty or too large")
        )
    return low if low == high else symbol(name, low, high, opt=ranges.usual_opt(low, high))


class Symbols(dict[str, Dim]):
    """Sizes by the text that names them, created on demand; `given` fixes or bounds them, else what
    the model states does (`1..8`; other text is passed over).
    """

    def __init__(
        self, given: Mapping[str, DimValue], told: Mapping[str, str] | None = None
    ) -> None:
        super().__init__()
        read = {name: ranges.stated_size(name, text) for name, text in (told or {}).items()}
        known = {name: size for name, size in read.items() if size is not None}
        agreed = {name: _agreed(name, known[name], given[name]) for name in known if name in given}
        self.given: dict[str, DimValue] = {**known, **given, **agreed}
        self.names: set[str] = set()
        self._asked, self._met = set(given), set[str]()

    def __missing__(self, text: str) -> Dim:
        self[text] = dim = self._made(text)
        return dim

    def _made(self, text: str) -> Dim:
        self._met.add(text)
        if text in self.given:
            return sized(text, self.given[text])
        name = plain(text)
        while name in self.names:
            name += "_"
        self.names.add(name)
        self._met.add(name)
        return sized(name, self.given[name]) if name in self.given else symbol(name, opt=OPT)

    def check(self) -> None:
        """Raises SourceError where a caller gives a size that the model does not have."""
        known_sizes(self._asked, self._met)

    def open(self) -> dict[str, Symbol]:
        """The symbols that are still open, by name."""
        return {s.name: s for size in self.values() for s in symbols(size)}


def known_sizes(asked: Iterable[str], met: Iterable[str]) -> None:
    """Raises SourceError where a size that is asked for is none of those that a model has."""
    for name in sorted({*asked} - {*met}):
        hint = f"known: {', '.join(sorted(met))}" if met else "all of its sizes are known"
        raise SourceError(Diagnostic("XL2014", f"there is no size {name!r} to set", hint=hint))


def _agreed(name: str, stated: int | Symbol, given: DimValue) -> DimValue:
    """What a caller gives for a size, within what the model states of it. Raises SourceError."""
    size = sized(name, given)
    known = Symbol(name, stated, stated) if isinstance(stated, int) else stated
    by = known.multiple_of
    if isinstance(size, int):
        if known.min <= size <= known.max and size % by == 0:
            return size
        asked = str(size)
    else:
        (symbol,) = symbols(size)
        asked = ranges.size_text(symbol)
        low, high = symbol.min or known.min, min(symbol.max, known.max)
        low, high = -(-low // by) * by, high if high == UNBOUNDED else high // by * by
        if known.min <= low <= high and (symbol.max <= known.max or symbol.max == UNBOUNDED):
            return (
                low if low == high else Symbol(name, low, high, ranges.usual_opt(low, high, by), by)
            )
    wanted = str(known.min) if known.min == known.max else ranges.size_text(known)
    problem = f"{name} = {asked} is not within {wanted}, which the model states"
    raise SourceError(Diagnostic("XL2014", problem))


def plain(text: str) -> str:
    """The closest name to the text that is legal in a spec."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")[:60] or "size"
    return name if name[0].isalpha() else f"size_{name}"
