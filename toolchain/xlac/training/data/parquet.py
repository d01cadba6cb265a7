"""Parquet files, read by pyarrow: columns of numbers, or of lists of equal length."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from xlac.support.extras import needed
from xlac.training.data.column import ArrayColumn, Column, TrainingInput, fault
from xlac.training.data.spill import SpilledRows
from xlac_sdk.dtypes import Array
from xlac_sdk.support.files import regular

CHUNK_ROWS = 8192  # rows that are decoded at once
KINDS = "biuf"  # NumPy's kinds: bool, signed, unsigned, float


class ParquetTable:
    """The columns of a Parquet file."""

    def __init__(self, path: Path) -> None:
        with needed("reading Parquet"):
            from pyarrow import parquet
        with regular(path).open("rb"):
            pass
        self.path = path
        try:
            self._file = parquet.ParquetFile(path, memory_map=True)
        except Exception as error:  # malformed files raise many kinds of errors in pyarrow
            raise fault("XL6301", f"{path}: {_reason(error)}") from None
        self.names = tuple(self._file.schema_arrow.names)

    def columns(
        self, asked: Mapping[str, tuple[TrainingInput, tuple[str, ...]]]
    ) -> dict[str, Column]:
        """The inputs' columns, read in one pass. Raises SourceError and LimitError."""
        used = sorted({name for _, names in asked.values() for name in names})
        held = {name: SpilledRows(str(self.path)) for name in asked}
        done = 0
        try:
            for part in self._file.iter_batches(CHUNK_ROWS, columns=used):
                if not len(part):
                    continue
                for name, (one, names) in asked.items():
                    columns = [self._rows(part.column(n), n, done) for n in names]
                    held[name].append(_joined(columns, one))
                done += len(part)
        except (OSError, ValueError, NotImplementedError) as error:
            raise fault("XL6301", f"{self.path}: {_reason(error)}") from None
        if not done:
            raise fault("XL6305", f"{self.path} has no rows")
        return {name: ArrayColumn(rows.array(), str(self.path)) for name, rows in held.items()}

    def _rows(self, values: Any, name: str, first: int) -> Array:
        """Arrow values as an array, lists as a further axis. Raises SourceError for nulls, lists of
        different lengths, and values that are no numbers.
        """
        import pyarrow as arrow

        if isinstance(values, arrow.ExtensionArray):
            values = values.storage
        if values.null_count:
            row = first + int(np.flatnonzero(np.asarray(values.is_null()))[0])
            raise fault("XL6306", f"{self.path}, row {row}: '{name}' is null")
        kind = values.type
        listed = arrow.types.is_list(kind) or arrow.types.is_large_list(kind)
        if listed or arrow.types.is_fixed_size_list(kind):
            counts = np.asarray(values.value_lengths())
            if (counts != counts[0]).any():
                row = int(np.flatnonzero(counts != counts[0])[0])
                problem = (
                    f"{self.path}, row {first + row}: '{name}' has {counts[row]} elements, "
                    f"and {counts[0]} before"
                )
                raise fault("XL6304", problem, "rows of a batch have one shape: pad them")
            inner = self._rows(values.flatten(), name, first)
            return inner.reshape(len(values), int(counts[0]), *inner.shape[1:])
        array: Array = values.to_numpy(zero_copy_only=False)
        if array.dtype.kind not in KINDS:
            problem = f"{self.path}: '{name}' holds {kind}, which is not a number"
            raise fault("XL6303", problem)
        return array


def _joined(columns: list[Array], one: TrainingInput) -> Array:
    """Columns side by side, as rows of an input."""
    array = columns[0] if len(columns) == 1 else np.stack(columns, 1)
    wanted = one.row.shape
    if array.ndim == 2 and len(wanted) != 1 and one.volume == array.shape[1]:
        return array.reshape(len(array), *(int(dim) for dim in wanted if isinstance(dim, int)))
    return array


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
