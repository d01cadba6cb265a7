"""Zip archives of tensors with unique member names, and NumPy's .npz."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path

import numpy as np

from xlac.ir.op import Array
from xlac.spec.weights.tensor_files import MAX_RANK, MAX_TENSORS, BadFile, StoredTensor, lacking
from xlac_sdk.dtypes import DType
from xlac_sdk.support.counts import number_of


class Archive:
    """The members of a zip file by name, which must be unique."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.members: dict[str, zipfile.ZipInfo] = {}
        try:
            self._held = zipfile.ZipFile(path)
            infos = self._held.infolist()
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise BadFile(f"it is a damaged zip archive: {error}") from None
        if len(infos) > MAX_TENSORS:
            raise BadFile(
                f"it has {number_of(len(infos), 'member')}; at most {MAX_TENSORS:,} are read"
            )
        for info in infos:
            if info.filename in self.members:
                raise BadFile(f"its member {info.filename[:80]!r} is there twice")
            self.members[info.filename] = info

    def read(self, name: str, nbytes: int) -> bytes:
        """The first `nbytes` of a member; the entire member where that is its size. Raises
        BadFile.
        """
        try:
            with self._held.open(self.members[name]) as member:
                return member.read(nbytes)
        except Exception as error:  # exceptions of zipfile, zlib and others
            raise BadFile(f"its member {name[:80]!r} cannot be read: {error}") from None


class NpzFile:
    """The arrays of a .npz file by name."""

    HEADER = 1 << 16  # bytes in which the header of an array has to be

    def __init__(self, archive: Archive) -> None:
        self.archive, self.path = archive, archive.path
        self._tensors = {name.removesuffix(".npy"): self._tensor(name) for name in archive.members}

    @property
    def tensors(self) -> Mapping[str, StoredTensor]:
        """The arrays of the archive by name."""
        return self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def _tensor(self, member: str) -> StoredTensor:
        head = BytesIO(self.archive.read(member, self.HEADER))
        try:
            version = np.lib.format.read_magic(head)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, column_major, dtype = read(head)
        except Exception as error:
            raise BadFile(f"its member {member[:80]!r} is not an array: {error}") from None
        name, start, size = (
            member.removesuffix(".npy"),
            head.tell(),
            self.archive.members[member].file_size,
        )
        try:
            known = DType.of(dtype.newbyteorder("="))
        except KeyError:
            known = None
        if len(shape) > MAX_RANK or any(n < 0 for n in shape):
            raise BadFile(f"the shape of tensor {name!r} is not one")
        count = 1
        for extent in shape:
            count *= extent
        if known is not None and start + count * dtype.itemsize != size:
            raise BadFile(
                f"tensor {name!r} of {count:,} {known} elements has {size - start:,} bytes"
            )
        if column_major or dtype.byteorder == ">":
            known = None
            return StoredTensor(
                f"{dtype} {'in columns' if column_major else 'of the other byte order'}", shape
            )
        return StoredTensor(known or str(dtype), shape, start, size)

    def __getitem__(self, name: str) -> Array:
        tensor = self._tensors[name]
        dtype = lacking(name, tensor.dtype)
        data = self.archive.read(f"{name}.npy", tensor.stop)
        if len(data) != tensor.stop:
            raise BadFile(f"tensor {name!r} is truncated")
        return np.frombuffer(data, dtype.numpy, offset=tensor.start).reshape(tensor.shape)
