"""Columns: rows of one shape and dtype in memory or in files; a row is one sample of one input."""

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
"""Row numbers, or a contiguous range of them (a slice with start and stop only)."""


class Column(Protocol):
    """Rows of one shape and dtype. `ready` rows are cheap to read, so all are checked before the
    first step; others (images) are decoded and checked when they are used.
    """

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the stored elements, which may differ from the input's."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a row."""

    @property
    def rows(self) -> int:
        """The number of rows."""

    @property
    def ready(self) -> bool:
        """Whether rows are cheap to read."""

    def take(self, rows: Rows) -> Array:
        """Some rows, an array [n, *shape] that the caller must not write to."""

    def place(self, row: int) -> str:
        """The origin of a row, such as file and line, for messages."""

    @property
    def digest(self) -> str:
        """A text that identifies rows that are not `ready`; others are hashed."""


class Table(Protocol):
    """A file or folder that has columns by name."""

    @property
    def path(self) -> Path:
        """The file or folder."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""

    def columns(
        self, asked: Mapping[str, tuple[TrainingInput, tuple[str, ...]]]
    ) -> dict[str, Column]:
        """The column of each input. `asked` gives, by input, the names of one column of the table,
        or of several whose values side by side make a row. Raises SourceError.
        """


@dataclass(frozen=True, slots=True)
class IndexRange:
    """The valid numbers of an integer input: `least` to `most`, and those in `besides`, such as a
    label that the loss ignores.
    """

    least: int
    most: int
    besides: frozenset[int] = frozenset()

    def __contains__(self, number: int) -> bool:
        return self.least <= number <= self.most or number in self.besides

    def __and__(self, other: IndexRange) -> IndexRange:
        """The intersection of two ranges."""
        least, most = max(self.least, other.least), min(self.most, other.most)
        apart = {n for n in self.besides | other.besides if n in self and n in other}
        return IndexRange(least, most, frozenset(n for n in apart if n > most or n < least))

    def first_outside(self, numbers: Array) -> tuple[int, ...] | None:
        """The position of the first of some integers that is not in the range."""
        if not numbers.size:
            return None
        low, high = int(numbers.min()), int(numbers.max())
        if low >= self.least and high <= self.most:  # Python's: no dtype holds both u64 and i64
            return None
        holds = np.iinfo(numbers.dtype)
        outside = np.zeros(numbers.shape, bool)
        if low < self.least:
            outside |= numbers < numbers.dtype.type(max(self.least, int(holds.min)))
        if high > self.most:
            outside |= numbers > numbers.dtype.type(min(self.most, int(holds.max)))
        for number in self.besides:
            outside &= numbers != number
        return tuple(map(int, np.argwhere(outside)[0])) if outside.any() else None

    def __str__(self) -> str:
        return ", ".join([f"{self.least}..{self.most}", *(f"or {n}" for n in sorted(self.besides))])


@dataclass(frozen=True, slots=True)
class TrainingInput:
    """An input of a step: its type, the axis of the batch (None: it has none, and takes the whole
    array), and the valid numbers of an integer input.
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
        """The number of elements of a row; None where a size of it is open."""
        if any(symbols(dim) for dim in self.row.shape):
            return None
        return int(np.prod([bounds(dim)[0] for dim in self.row.shape], dtype=np.int64))


def fault(code: str, problem: str, hint: str = "") -> SourceError:
    """A SourceError without a place in a spec, such as one about data or a run."""
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
        """The dtype of the array."""
        return self.array.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a row."""
        return self.array.shape[1:]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.array)

    def take(self, rows: Rows) -> Array:
        """Some rows; a view where `rows` is a slice."""
        return self.array[rows]

    def place(self, row: int) -> str:
        """The file and the row in it, counted from 0."""
        return f"{self.source}, row {row}"


class ShardedColumn:
    """Columns of one shape and dtype, concatenated."""

    def __init__(self, name: str, shards: Sequence[Column]) -> None:
        first = shards[0]
        for shard in shards:
            if shard.dtype != first.dtype or shard.shape != first.shape:
                here, there = _type_text(shard), _type_text(first)
                problem = f"'{name}' is {here} in {_file(shard)}, and {there} in {_file(first)}"
                raise fault("XL6304", problem, "the files of one pattern hold rows of one type")
        self.shards, self.dtype, self.shape = shards, first.dtype, first.shape
        self.ready = all(shard.ready for shard in shards)
        self.ends = np.cumsum([shard.rows for shard in shards])
        self.rows = int(self.ends[-1])
        self.digest = " ".join(shard.digest for shard in shards)

    def _shard(self, row: int) -> tuple[int, int]:
        """The index of the shard that has a row, and the number of that shard's first row."""
        number = int(np.searchsorted(self.ends, row, side="right"))
        return number, int(self.ends[number]) - self.shards[number].rows

    def take(self, rows: Rows) -> Array:
        """Some rows, copied from their shards."""
        wanted = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        taken = np.empty((len(wanted), *self.shape), self.dtype)
        numbers = np.searchsorted(self.ends, wanted, side="right")
        for number in np.unique(numbers):
            here = numbers == number
            shard = self.shards[number]
            taken[here] = shard.take(wanted[here] - (self.ends[number] - shard.rows))
        return taken

    def place(self, row: int) -> str:
        """The origin of a row, in its shard."""
        number, first = self._shard(row)
        return self.shards[number].place(row - first)


def _type_text(column: Column) -> str:
    return f"{column.dtype}{[*column.shape]}"


def _file(column: Column) -> str:
    return column.place(0).partition(",")[0]
