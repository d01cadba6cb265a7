"""Columns: arrays of rows, wherever they lie, one element of training data a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from xlac.ir.dims import bounds, symbols
from xlac.ir.types import Type
from xlac_sdk.dtypes import Array
from xlac_sdk.source import Diagnostic, SourceError

Rows = NDArray[np.int64] | slice
"""Numbers of rows, or a stretch of them (start and stop alone)."""


class Column(Protocol):
    """Rows of one shape and type. `ready`: they can be read again at no great cost, so that all are
    checked before the first step; others are decoded when their turn comes.
    """

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a row."""

    @property
    def rows(self) -> int:
        """How many rows there are."""

    @property
    def ready(self) -> bool:
        """Whether rows can be read again at no great cost."""

    def take(self, rows: Rows) -> Array:
        """These rows, an array [n, *shape] that the caller may keep and not write to."""

    def place(self, row: int) -> str:
        """Where a row comes from, as messages say it."""

    @property
    def digest(self) -> str:
        """What tells the rows from others where they are not `ready`."""


class Table(Protocol):
    """A file or folder of columns by name."""

    @property
    def path(self) -> Path:
        """The file or folder."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""

    def columns(
        self, asked: Mapping[str, tuple[TrainingInput, tuple[str, ...]]]
    ) -> dict[str, Column]:
        """For each input its column, of one column of the table, or of several side by side.
        Raises SourceError.
        """


@dataclass(frozen=True, slots=True)
class IndexRange:
    """Which numbers integers may be: from `least` to `most`, and those `besides`, such as one that a
    loss ignores.
    """

    least: int
    most: int
    besides: frozenset[int] = frozenset()

    def __contains__(self, number: int) -> bool:
        return self.least <= number <= self.most or number in self.besides

    def __and__(self, other: IndexRange) -> IndexRange:
        """The numbers of both, whose least number is the same."""
        most = min(self.most, other.most)
        apart = {n for n in self.besides | other.besides if n in self and n in other}
        return IndexRange(
            self.least, most, frozenset(n for n in apart if n > most or n < self.least)
        )

    def __str__(self) -> str:
        return ", ".join([f"{self.least}..{self.most}", *(f"or {n}" for n in sorted(self.besides))])


@dataclass(frozen=True, slots=True)
class TrainingInput:
    """An input of a step: its type, which axis counts the rows (None: it takes the data as they
    are), and which numbers it may hold.
    """

    name: str
    type: Type
    axis: int | None
    range: IndexRange | None = None

    @property
    def row(self) -> Type:
        """The type of one row."""
        if self.axis is None:
            return self.type
        shape = self.type.shape
        return self.type.with_shape((*shape[: self.axis], *shape[self.axis + 1 :]))

    def takes(self, shape: Sequence[int]) -> bool:
        """Whether a row may have this shape, each open size within its bounds."""
        wanted = self.row.shape
        if len(shape) != len(wanted):
            return False
        ends = [bounds(dim) for dim in wanted]
        return all(low <= n <= high for n, (low, high) in zip(shape, ends, strict=True))

    @property
    def volume(self) -> int | None:
        """The elements of a row, where no size of it is open."""
        if any(symbols(dim) for dim in self.row.shape):
            return None
        return int(np.prod([bounds(dim)[0] for dim in self.row.shape], dtype=np.int64))


def fault(code: str, problem: str, hint: str = "") -> SourceError:
    """The error for something wrong with the data."""
    return SourceError(Diagnostic(code, problem, hint=hint))


@dataclass(frozen=True, slots=True)
class ArrayColumn:
    """A column that is an array, in memory or mapped."""

    array: Array
    source: str
    ready: bool = True
    digest: str = ""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type."""
        return self.array.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a row."""
        return self.array.shape[1:]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.array)

    def take(self, rows: Rows) -> Array:
        """The rows, copied unless they are a stretch."""
        return self.array[rows]

    def place(self, row: int) -> str:
        """The file and the row in it, counted from 0."""
        return f"{self.source}, row {row}"


class ShardedColumn:
    """Columns of one type, one after the other."""

    def __init__(self, name: str, shards: Sequence[Column]) -> None:
        first = shards[0]
        for shard in shards:
            if shard.dtype != first.dtype or shard.shape != first.shape:
                here, there = _told(shard), _told(first)
                problem = f"'{name}' is {here} in {_file(shard)}, and {there} in {_file(first)}"
                raise fault("XL6304", problem, "the files of one pattern hold rows of one type")
        self.shards, self.dtype, self.shape = shards, first.dtype, first.shape
        self.ready = all(shard.ready for shard in shards)
        self.ends = np.cumsum([shard.rows for shard in shards])
        self.rows = int(self.ends[-1])
        self.digest = " ".join(shard.digest for shard in shards)

    def _shard(self, row: int) -> tuple[int, int]:
        """The number of the shard that has a row, and the first row of that shard."""
        number = int(np.searchsorted(self.ends, row, side="right"))
        return number, int(self.ends[number]) - self.shards[number].rows

    def take(self, rows: Rows) -> Array:
        """The rows, each from its shard."""
        wanted = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        made = np.empty((len(wanted), *self.shape), self.dtype)
        numbers = np.searchsorted(self.ends, wanted, side="right")
        for number in np.unique(numbers):
            here = numbers == number
            shard = self.shards[number]
            made[here] = shard.take(wanted[here] - (self.ends[number] - shard.rows))
        return made

    def place(self, row: int) -> str:
        """The place in the shard."""
        number, first = self._shard(row)
        return self.shards[number].place(row - first)


def _told(column: Column) -> str:
    return f"{column.dtype}{[*column.shape]}"


def _file(column: Column) -> str:
    return column.place(0).partition(",")[0]
