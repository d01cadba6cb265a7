"""The interface of files of named tensors, independent of the format.

Everything but the tensors' data is checked when a file is opened; a tensor is read, or mapped, when
it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from xlac.ir.op import Array
from xlac_sdk.dtypes import DType

MAX_RANK = 64
MAX_TENSORS = 1_000_000


class BadFile(ValueError):
    """A file without named tensors, or one that is not safe to read."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor of a file. `dtype` is text for a type that xlac lacks; bytes `start` to `stop` are
    the data, where it is contiguous.
    """

    dtype: DType | str
    shape: tuple[int, ...]
    start: int = 0
    stop: int = 0


class TensorFile(Protocol):
    """The tensors of one file."""

    path: Path

    @property
    def tensors(self) -> Mapping[str, StoredTensor]:
        """The tensors of the file by name."""

    def __getitem__(self, name: str, /) -> Array:
        """The elements of a tensor, read-only. Raises BadFile for a type that xlac lacks, and for a
        damaged member.
        """


def lacking(name: str, dtype: DType | str) -> DType:
    """The element type of a tensor that is to be read. Raises BadFile where xlac lacks it."""
    if isinstance(dtype, str):
        raise BadFile(f"tensor {name!r} has element type {dtype}, which xlac lacks")
    return dtype
