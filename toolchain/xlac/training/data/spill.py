"""Rows decoded from a file that cannot be mapped: kept in memory while they are few, else written
to a temporary file without a name, which is mapped.
"""

from __future__ import annotations

import shutil
import tempfile
from errno import EDQUOT, ENOSPC
from typing import IO, Any

import numpy as np

from xlac_sdk.dtypes import Array
from xlac_sdk.source import Diagnostic, LimitError

MAX_IN_MEMORY = 128 << 20  # bytes


class SpilledRows:
    """Collects decoded rows; `source` names their file in messages."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._parts: list[Array] = []
        self._nbytes = 0
        self._rows = 0
        self._file: IO[bytes] | None = None
        self._first: Array | None = None

    def append(self, rows: Array) -> None:
        """Adds rows of the shape and dtype of those before. Raises LimitError for a full disk."""
        if self._first is None:
            self._first = rows[:0]
        self._rows += len(rows)
        self._nbytes += rows.nbytes
        if self._file is not None:
            self._write(rows)
            return
        self._parts.append(rows)
        if self._nbytes > MAX_IN_MEMORY:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 lives as long as its mapping
            for part in self._parts:
                self._write(part)
            self._parts = []

    def _write(self, rows: Array) -> None:
        assert self._file is not None
        try:
            self._file.write(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data)
        except OSError as error:
            if error.errno in (ENOSPC, EDQUOT):
                raise disk_full(self.source, self._nbytes) from None
            raise

    def array(self) -> Array:
        """All rows in one array. There must be at least one part."""
        assert self._first is not None
        if self._file is None:
            return self._parts[0] if len(self._parts) == 1 else np.concatenate(self._parts)
        self._file.flush()
        shape = (self._rows, *self._first.shape[1:])
        mapped: np.memmap[Any, Any] = np.memmap(self._file, self._first.dtype, "r", shape=shape)
        return mapped


def check_disk_space(source: str, nbytes: int) -> None:
    """Raises LimitError where the disk has no room for `nbytes` of decoded rows."""
    if nbytes > MAX_IN_MEMORY and shutil.disk_usage(tempfile.gettempdir()).free < nbytes:
        raise disk_full(source, nbytes)


def disk_full(source: str, nbytes: int) -> LimitError:
    """The error for a disk without room for decoded rows."""
    problem = f"{source}: {tempfile.gettempdir()} has no room for its {nbytes:,} bytes decoded"
    hint = (
        "set TMPDIR to a folder with more, or store the data as .npy or .safetensors, "
        "which are mapped"
    )
    return LimitError(Diagnostic("XL4002", problem, hint=hint))
