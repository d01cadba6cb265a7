"""Data with random access to rows: columns of files and arrays, and sequences of samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlac.support.digest import BYTES
from xlac.training.data.batches import Batch, EpochOrder
from xlac.training.data.column import Rows, TrainingInput, fault
from xlac.training.data.fitted import (
    FittedColumn,
    Progress,
    arranged,
    check_shape,
    check_values,
    converts_exactly,
)
from xlac.training.data.values import array_of, named
from xlac_sdk.dtypes import Array
from xlac_sdk.support.hashing import blake2b


class ColumnData:
    """A column for each input. Raises SourceError where their numbers of rows differ, or are 0."""

    size: int | None = None

    def __init__(self, columns: Mapping[str, FittedColumn]) -> None:
        counted = {n: c for n, c in columns.items() if c.input.axis is not None}
        first, *rest = counted.values()
        for column in rest:
            if column.rows != first.rows:
                problem = (
                    f"input '{first.input.name}' has {first.rows:,} rows, "
                    f"and '{column.input.name}' {column.rows:,}"
                )
                raise fault("XL6305", problem, f"in {first.column.place(0).partition(',')[0]}")
        if not first.rows:
            raise fault("XL6305", "the data have no rows")
        self.rows, self._columns = first.rows, counted
        self._whole = {n: c for n, c in columns.items() if c.input.axis is None}
        self._digest = ""

    @property
    def digest(self) -> str:
        """A hash of all rows, known after `verify`."""
        return self._digest

    def verify(self, progress: Progress) -> None:
        """Checks and hashes all rows that are cheap to read. Raises SourceError."""
        hasher = blake2b(digest_size=BYTES)
        for name, column in sorted({**self._columns, **self._whole}.items()):
            header = (
                f"{name} {column.column.dtype} {column.column.shape} {column.rows} "
                f"{column.column.digest}\n"
            )
            hasher.update(header.encode())
            if column.ready:
                column.verify(
                    progress,
                    lambda rows: hasher.update(
                        np.ascontiguousarray(rows).view(np.uint8).reshape(-1).data
                    ),
                )
        self._digest = hasher.hexdigest()

    def steps(self, order: EpochOrder) -> int:
        """How many batches an epoch has."""
        return order.steps(self.rows)

    def batches(self, order: EpochOrder, start: int) -> Iterator[Batch]:
        """The batches of an epoch from number `start` on. Raises SourceError."""
        whole = {name: column.take(slice(0, 1)) for name, column in self._whole.items()}
        for rows in order.batches(self.rows, start):
            chosen: Rows = slice(int(rows[0]), int(rows[-1]) + 1) if order.epoch is None else rows
            yield {**{name: c.take(chosen) for name, c in self._columns.items()}, **whole}


class SampleData:
    """A sequence of samples (a dataset of PyTorch or Hugging Face, a list), each with a row of
    every input: a mapping by name, or a tuple in the inputs' order.
    """

    size: int | None = None

    def __init__(self, samples: Any, inputs: Mapping[str, TrainingInput]) -> None:
        self._samples, self._inputs, self.rows = samples, inputs, len(samples)
        if not self.rows:
            raise fault("XL6305", "the data have no rows")
        whole = next((one for one in inputs.values() if one.axis is None), None)
        if whole is not None:
            problem = f"input '{whole.name}' has no axis of rows, and samples have a row of each"
            raise fault("XL6310", problem)
        kind = type(samples)
        self.digest = f"{kind.__module__}.{kind.__qualname__} of {self.rows} rows"
        fingerprint: object = getattr(
            samples, "_fingerprint", None
        )  # datasets of Hugging Face have one
        if isinstance(fingerprint, str):
            self.digest += f", {fingerprint}"

    def verify(self, progress: Progress) -> None:
        """Checks the first sample; others are checked when they are used. Raises SourceError."""
        self._take(np.zeros(1, np.int64))

    def steps(self, order: EpochOrder) -> int:
        """How many batches an epoch has."""
        return order.steps(self.rows)

    def batches(self, order: EpochOrder, start: int) -> Iterator[Batch]:
        """The batches of an epoch from number `start` on. Raises SourceError."""
        for rows in order.batches(self.rows, start):
            yield self._take(rows)

    def _take(self, rows: NDArray[np.int64]) -> Batch:
        numbers = rows.tolist()
        several = getattr(self._samples, "__getitems__", None)
        some = several(numbers) if several else [self._samples[number] for number in numbers]
        samples = [
            named(sample, self._inputs, f"sample {n}")
            for sample, n in zip(some, numbers, strict=True)
        ]
        return {name: self._stacked(samples, one, numbers) for name, one in self._inputs.items()}

    def _stacked(self, samples: list[dict[str, Any]], one: TrainingInput, rows: list[int]) -> Array:
        parts = [
            array_of(s[one.name], one, f"sample {n}") for s, n in zip(samples, rows, strict=True)
        ]
        for part, number in zip(parts, rows, strict=True):
            check_shape(part.shape, one, f"sample {number}")
            if part.shape != parts[0].shape or part.dtype != parts[0].dtype:
                problem = (
                    f"sample {number}: input '{one.name}' is {part.dtype}{[*part.shape]}, "
                    f"and {parts[0].dtype}{[*parts[0].shape]} in sample {rows[0]}"
                )
                raise fault("XL6304", problem, "rows of a batch have one shape: pad them")
        stacked = np.stack(parts)
        checks_bounds = not converts_exactly(stacked.dtype, one, f"sample {rows[0]}")
        check_values(stacked, one, lambda at: f"sample {rows[at]}", checks_bounds)
        return arranged(stacked, one)
