"""Files of arrays: .npy, .npz and .safetensors, mapped; compressed members are decoded."""

from __future__ import annotations

import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from xlac.spec.weights.archive import Archive, NpzFile
from xlac.spec.weights.safetensors import SafetensorsFile
from xlac.spec.weights.tensor_files import BadFile, lacking
from xlac.support.dependencies import mapped
from xlac.training.data.column import ArrayColumn, Column, TrainingInput, fault
from xlac.training.data.spill import MAX_IN_MEMORY, check_disk_space, disk_full
from xlac_sdk.dtypes import Array
from xlac_sdk.support.files import regular

LOCAL_HEADER = 30  # bytes of a zip member's header before its name
CHUNK = 16 << 20


class ArrayTable:
    """The arrays of one file by name, each read when it is asked for."""

    def __init__(self, path: Path, arrays: Mapping[str, Callable[[], Array]]) -> None:
        self.path, self._arrays = path, arrays
        self.names = tuple(arrays)

    def columns(
        self, asked: Mapping[str, tuple[TrainingInput, tuple[str, ...]]]
    ) -> dict[str, Column]:
        """The column of each input. Raises SourceError for a damaged array, and for an input that
        is to be made of several arrays.
        """
        columns: dict[str, Column] = {}
        for name, (one, names) in asked.items():
            if len(names) > 1:
                problem = f"{self.path}: '{name}' is to be several arrays side by side"
                raise fault("XL6312", problem, "several columns make an input of CSV and Parquet")
            try:
                array = self._arrays[names[0]]()
            except BadFile as error:
                raise fault("XL6301", f"{self.path}: {error}") from None
            if one.axis is None:
                array = array[np.newaxis]  # an input without a batch axis: one row, the whole array
            if not array.ndim:
                problem = f"{self.path}: '{names[0]}' is a single number, and has no rows"
                raise fault("XL6304", problem)
            columns[name] = ArrayColumn(array, str(self.path))
        return columns


def safetensors(path: Path) -> ArrayTable:
    """The tensors of a .safetensors file, mapped. Raises SourceError and OSError."""
    try:
        file = SafetensorsFile(path)
    except BadFile as error:
        raise fault("XL6301", f"{path}: {error}") from None
    return ArrayTable(path, {name: partial(file.__getitem__, name) for name in file})


def npy(path: Path, name: str) -> ArrayTable:
    """A .npy file, mapped, as a column of this name. Raises SourceError and OSError."""
    with regular(path).open("rb"):
        pass  # raises an OSError with the reason, where NumPy's error would hide it
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # malformed files raise many kinds of errors in NumPy
        problem = f"{path}: {error}"
        if "pickle" in problem:
            problem = f"{path}: it is not a .npy file of numbers"
        raise fault("XL6301", problem) from None
    if not isinstance(array, np.ndarray):
        raise fault("XL6301", f"{path}: it is an archive of several arrays", "name it .npz")
    return ArrayTable(path, {name: lambda: array})


def npz(path: Path) -> ArrayTable:
    """The arrays of a .npz file: uncompressed ones mapped, others decoded. Raises SourceError and
    OSError.
    """
    with regular(path).open("rb"):
        pass
    try:
        file = NpzFile(Archive(path))
    except BadFile as error:
        raise fault("XL6301", f"{path}: {error}") from None
    return ArrayTable(path, {name: partial(_member, file, name) for name in file})


def _member(file: NpzFile, name: str) -> Array:
    """An array of a .npz. Raises BadFile and LimitError."""
    tensor = file.tensors[name]
    dtype = lacking(name, tensor.dtype).numpy
    info = file.archive.members[f"{name}.npy"]
    if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1:
        return _stored(file.path, info, tensor.start, dtype, tensor.shape)
    if tensor.stop <= MAX_IN_MEMORY:
        return file[name]
    return _decoded(file.path, info, tensor.start, dtype, tensor.shape)


def _stored(
    path: Path, info: zipfile.ZipInfo, start: int, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> Array:
    """An uncompressed member as a view of the mapped file. Raises BadFile, also where its checksum
    is wrong.
    """
    view = mapped(path)
    head = bytes(view[info.header_offset : info.header_offset + LOCAL_HEADER])
    if len(head) < LOCAL_HEADER or not head.startswith(b"PK\x03\x04"):
        raise BadFile(f"its member {info.filename[:80]!r} is not where the archive says")
    begin = info.header_offset + LOCAL_HEADER + sum(struct.unpack("<HH", head[26:30]))
    member = view[begin : begin + info.file_size]
    check = 0
    for at in range(0, len(member), CHUNK):
        check = zlib.crc32(member[at : at + CHUNK], check)
    if len(member) != info.file_size or check != info.CRC:
        raise BadFile(f"its member {info.filename[:80]!r} is damaged: its checksum differs")
    return np.frombuffer(member, np.uint8, offset=start).view(dtype).reshape(shape)


def _decoded(
    path: Path, info: zipfile.ZipInfo, start: int, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> Array:
    """A large compressed member, decoded to a temporary file. Raises BadFile and LimitError."""
    check_disk_space(str(path), info.file_size)
    held = tempfile.TemporaryFile()  # noqa: SIM115 lives as long as its mapping
    try:
        with zipfile.ZipFile(path) as archive, archive.open(info) as member:
            shutil.copyfileobj(member, held, CHUNK)
    except OSError:
        raise disk_full(str(path), info.file_size) from None
    except Exception as error:  # malformed archives raise many kinds of errors in zipfile and zlib
        raise BadFile(f"its member {info.filename[:80]!r} cannot be read: {error}") from None
    held.flush()
    array: np.memmap[Any, Any] = np.memmap(held, dtype, "r", start, shape)
    return array
