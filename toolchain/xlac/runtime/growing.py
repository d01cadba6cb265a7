"""Decides which sizes a program keeps open: those that were met before with another value.

The first sizes that a model meets get a program of their own. When one of them comes again with
another value, the next program is for every value up to twice as large, so a sequence that grows by
one meets 2 + log2(growth) programs instead of one at every step. A size of 0 or 1 is never opened,
as most kernels treat axes of one element specially. On a GPU sizes are never opened: memory is
allocated for the largest sizes, whether they occur or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import Lock

from xlac.ir.dims import Symbol

LEAST = 2  # the smallest size that is opened
MET = 64  # sets of sizes that are remembered, and of open ones as many


@dataclass(frozen=True, slots=True)
class OpenSizes:
    """The sizes of a program: fixed values, and ranges (inclusive) of the others."""

    fixed: tuple[tuple[str, int], ...]
    ranges: tuple[tuple[str, int, int], ...]

    @property
    def names(self) -> frozenset[str]:
        """The names of the open sizes."""
        return frozenset(name for name, _, _ in self.ranges)

    def beyond(self, sizes: Mapping[str, int]) -> set[str]:
        """Those of some sizes that are outside of this program's."""
        differing = {name for name, value in self.fixed if sizes[name] != value}
        return differing | {
            name for name, low, high in self.ranges if not low <= sizes[name] <= high
        }

    def values(
        self, sizes: Mapping[str, int], known: Mapping[str, Symbol]
    ) -> dict[str, int | Symbol]:
        """The sizes to compile for: open ones are symbols, optimised for `sizes`."""
        values: dict[str, int | Symbol] = dict(self.fixed)
        for name, low, high in self.ranges:
            by = known[name].multiple_of
            values[name] = Symbol(name, min=low, max=high, multiple_of=by, opt=sizes[name])
        return values


class Growth:
    """The sizes that one model has met. Thread-safe."""

    def __init__(self, symbols: Iterable[Symbol]) -> None:
        self.symbols = {symbol.name: symbol for symbol in symbols}
        self._met: dict[tuple[tuple[str, int], ...], None] = {}
        self._open: list[OpenSizes] = []
        self._refused: set[frozenset[str]] = set()
        self._lock = Lock()

    def choose(self, sizes: Mapping[str, int]) -> OpenSizes | None:
        """The open sizes of the program for some sizes; None for a program specialized to exactly
        these.
        """
        key = tuple(sorted(sizes.items()))
        with self._lock:
            if key in self._met:
                return None
            choice = next((one for one in self._open if not one.beyond(sizes)), None)
            if choice is not None:
                return choice
            choice = self._opened(sizes)
            if choice is None:
                self._met[key] = None
                if len(self._met) > MET:
                    del self._met[next(iter(self._met))]
            else:
                self._open.append(choice)
                del self._open[:-MET]
            return choice

    def refuse(self, sizes: OpenSizes) -> None:
        """Records that a program with these open sizes could not be compiled: such sizes are
        specialized from now on.
        """
        with self._lock:
            self._refused.add(sizes.names)
            self._open = [one for one in self._open if not sizes.names <= one.names]

    def _opened(self, sizes: Mapping[str, int]) -> OpenSizes | None:
        """Sizes met before, most similar first, each with the differing sizes opened."""
        met = [OpenSizes(key, ()) for key in reversed(self._met)] + self._open[::-1]
        ways = [
            (len(beyond), one, beyond)
            for one in met
            if (beyond := one.beyond(sizes)) and self._may_open(one, sizes, beyond)
        ]
        if not ways:
            return None
        _, nearest, beyond = min(ways, key=lambda way: way[0])
        ends = {name: high for name, _, high in nearest.ranges} | dict(nearest.fixed)
        ranges = {name: (low, high) for name, low, high in nearest.ranges}
        for name in beyond:
            ranges[name] = self._range(
                name, max(sizes[name], ends[name] if name not in ranges else 0)
            )
        fixed = tuple((name, value) for name, value in nearest.fixed if name not in beyond)
        return OpenSizes(fixed, tuple((name, *ranges[name]) for name in sorted(ranges)))

    def _may_open(self, one: OpenSizes, sizes: Mapping[str, int], beyond: set[str]) -> bool:
        values = [value for name, value in one.fixed if name in beyond]
        values += [sizes[name] for name in beyond | one.names]
        names = one.names | beyond
        return min(values) >= LEAST and not any(gone <= names for gone in self._refused)

    def _range(self, name: str, most: int) -> tuple[int, int]:
        symbol = self.symbols[name]
        by = symbol.multiple_of
        low = max(symbol.min, -(-LEAST // by) * by)
        return low, min(symbol.max, 2 * most)
