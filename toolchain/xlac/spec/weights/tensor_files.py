"""Files of tensors by name, told apart by how they begin: safetensors, NumPy's .npz, state dicts of
PyTorch.

All of a file but its tensors' bytes is checked when it is opened; a tensor is read, or mapped, when
it is asked for.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from xlac.ir.op import Array
from xlac.support.dependencies import note
from xlac_sdk.dtypes import DType

MAX_RANK = 64
MAX_TENSORS = 1_000_000
_DTYPES = {np.dtype(d.numpy): d for d in DType}


class BadFile(ValueError):
    """A file that holds no tensors by name, or is not safe to read."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a file. `dtype` is text for a type that xlac lacks; bytes `start` to `stop` are
    the data's, where it is in one piece.
    """

    dtype: DType | str
    shape: tuple[int, ...]
    start: int = 0
    stop: int = 0


class TensorFile(Protocol):
    """The tensors of one file."""

    path: Path

    @property
    def tensors(self) -> Mapping[str, Tensor]: ...

    def __getitem__(self, name: str, /) -> Array:
        """The elements of a tensor, read-only. Raises BadFile for a type that xlac lacks, and for a
        damaged member.
        """


def opened(path: Path) -> TensorFile:
    """A file of tensors. Raises BadFile and OSError."""
    with note(path).open("rb") as file:
        zipped = file.read(4) == b"PK\x03\x04"
    if not zipped:
        from xlac.spec.weights.safetensors import SafetensorsFile

        return SafetensorsFile(path)
    archive = Archive(path)
    if any(name.endswith("/data.pkl") for name in archive.members):
        from xlac.spec.weights.state_dict import StateDict

        return StateDict(archive)
    if archive.members and all(name.endswith(".npy") for name in archive.members):
        return NpzFile(archive)
    raise BadFile("it is a zip archive, and neither NumPy's (.npz) nor a state dict of PyTorch")


def lacking(name: str, dtype: DType | str) -> DType:
    """The element type of a tensor that is to be read. Raises BadFile where xlac lacks it."""
    if isinstance(dtype, str):
        raise BadFile(f"tensor {name!r} has element type {dtype}, which xlac lacks")
    return dtype


class Archive:
    """The members of a zip file by name, each there once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.members: dict[str, zipfile.ZipInfo] = {}
        try:
            self._held = zipfile.ZipFile(path)
            infos = self._held.infolist()
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise BadFile(f"it is a damaged zip archive: {error}") from None
        if len(infos) > MAX_TENSORS:
            raise BadFile(f"it has {len(infos):,} members; at most {MAX_TENSORS:,} are read")
        for info in infos:
            if info.filename in self.members:
                raise BadFile(f"its member {info.filename[:80]!r} is there twice")
            self.members[info.filename] = info

    def read(self, name: str, nbytes: int) -> bytes:
        """The first bytes of a member, all of it where it has just so many. Raises BadFile."""
        try:
            with self._held.open(self.members[name]) as member:
                return member.read(nbytes)
        except Exception as error:  # whatever zipfile, zlib and their like find wrong
            raise BadFile(f"its member {name[:80]!r} cannot be read: {error}") from None


class NpzFile:
    """The arrays of a .npz file by name."""

    HEADER = 1 << 16  # bytes in which the header of an array has to be

    def __init__(self, archive: Archive) -> None:
        self.archive, self.path = archive, archive.path
        self._tensors = {name.removesuffix(".npy"): self._tensor(name) for name in archive.members}

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        return self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def _tensor(self, member: str) -> Tensor:
        from io import BytesIO

        head = BytesIO(self.archive.read(member, self.HEADER))
        try:
            version = np.lib.format.read_magic(head)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, turned, dtype = read(head)
        except Exception as error:
            raise BadFile(f"its member {member[:80]!r} is no array: {error}") from None
        name, start, size = (
            member.removesuffix(".npy"),
            head.tell(),
            self.archive.members[member].file_size,
        )
        known = _DTYPES.get(dtype.newbyteorder("=")) if not dtype.hasobject else None
        if len(shape) > MAX_RANK or any(n < 0 for n in shape):
            raise BadFile(f"the shape of tensor {name!r} is not one")
        count = 1
        for extent in shape:
            count *= extent
        if known is not None and start + count * dtype.itemsize != size:
            raise BadFile(
                f"tensor {name!r} of {count:,} {known} elements has {size - start:,} bytes"
            )
        if turned or dtype.byteorder == ">":
            known = None
            return Tensor(f"{dtype} {'in columns' if turned else 'of the other byte order'}", shape)
        return Tensor(known or str(dtype), shape, start, size)

    def __getitem__(self, name: str) -> Array:
        tensor = self._tensors[name]
        dtype = lacking(name, tensor.dtype)
        data = self.archive.read(f"{name}.npy", tensor.stop)
        if len(data) != tensor.stop:
            raise BadFile(f"tensor {name!r} is truncated")
        return np.frombuffer(data, dtype.numpy, offset=tensor.start).reshape(tensor.shape)
