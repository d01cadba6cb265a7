"""Arrays by name, each made when first read: a program's constants, weights of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from xlac.ir.op import Array


class LazyArrays(Mapping[str, Array]):
    """Arrays by name, each made or mapped when it is first read, and kept."""

    def __init__(self, makers: Mapping[str, Callable[[], Array]] | None = None) -> None:
        self._makers: dict[str, Callable[[], Array]] = dict(makers or {})
        self._made: dict[str, Array] = {}

    def add(self, name: str, make: Callable[[], Array]) -> None:
        """Adds an array, made by `make` when first read."""
        self._makers[name] = make

    def __getitem__(self, name: str) -> Array:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def read_once(self, name: str) -> Array:
        """An array that is not kept: made again at the next read, unless it is there already."""
        return self._made[name] if name in self._made else self._makers[name]()

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)
