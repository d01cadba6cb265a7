"""Safetensors files: read by mapping, with every offset checked; written one tensor at a time.

The format: 8 bytes of header length (little endian), a JSON header of names with dtype, shape and
offsets, then the data (https://huggingface.co/docs/safetensors).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xlac.ir.dims import static
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.spec.weights.tensor_files import MAX_RANK, BadFile, StoredTensor, lacking
from xlac.support.dependencies import mapped, note
from xlac.support.file_kinds import HEAD, kind_of
from xlac_sdk.dtypes import DType

MAX_HEADER = 100 * 2**20
_DTYPES = {
    "F64": DType.F64, "F32": DType.F32, "F16": DType.F16, "BF16": DType.BF16, "I64": DType.I64,
    "I32": DType.I32, "I16": DType.I16, "I8": DType.I8, "U64": DType.U64, "U32": DType.U32,
    "U16": DType.U16, "U8": DType.U8, "BOOL": DType.BOOL,
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
CHUNK = 16 * 2**20  # bytes written at once


class SafetensorsFile(Mapping[str, Array]):
    """The tensors of a file by name: read-only views of the mapped file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with note(path).open("rb") as file:
            size = file.seek(0, 2)
            if size < 8:
                raise BadFile(f"{size} bytes are too few for a safetensors file")
            file.seek(0)
            head = file.read(HEAD)
            if (kind := kind_of(head)) is not None and kind[0] != "safetensors":
                raise BadFile(f"it is {kind[0]}, not safetensors")
            file.seek(8)
            (length,) = struct.unpack_from("<Q", head)
            if length > MAX_HEADER and head[8:9] != b"{":
                raise BadFile(
                    "it is not a safetensors file: that begins with the length of its header, "
                    "and a '{'"
                )
            if length > MAX_HEADER:
                raise BadFile(
                    f"the header claims {length:,} bytes; at most {MAX_HEADER:,} are read"
                )
            if length > size - 8:
                raise BadFile(
                    f"the header claims {length:,} bytes, and the file has {size - 8:,}: it is "
                    "truncated"
                )
            header = file.read(length)
        self._map = mapped(path)
        if len(self._map) != size:
            raise BadFile("it changed while it was read")
        self._data = 8 + length
        self.tensors = _tensors(header, size - 8 - length)
        self._header = header

    @property
    def metadata(self) -> dict[str, str]:
        """The file's metadata: texts by name; other values are ignored."""
        texts = _parse(self._header).get("__metadata__")
        some = texts.items() if isinstance(texts, dict) else ()
        return {name: text for name, text in some if isinstance(text, str)}

    def __getitem__(self, name: str) -> Array:
        tensor = self.tensors[name]
        dtype = lacking(name, tensor.dtype).numpy
        begin = self._data + tensor.start
        count = (tensor.stop - tensor.start) // dtype.itemsize
        array = (
            np.frombuffer(self._map, np.uint8, tensor.stop - tensor.start, begin)
            if count
            else np.empty(0, np.uint8)
        )
        if begin % dtype.itemsize:  # mapped views must be aligned for their type
            array = array.copy()
        array = array.view(dtype).reshape(tensor.shape)
        array.flags.writeable = False
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)


def _tensors(header: bytes, size: int) -> dict[str, StoredTensor]:
    entries = _parse(header)
    tensors: dict[str, StoredTensor] = {}
    for name, entry in entries.items():
        if name != "__metadata__":
            tensors[name] = _tensor(name, entry, size)
    end, last = 0, ""
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].stop)):
        if tensor.start < end:
            raise BadFile(f"tensors {last!r} and {name!r} overlap")
        if tensor.stop > tensor.start:
            end, last = tensor.stop, name
    return tensors


def _parse(header: bytes) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise BadFile(f"the header gives {twice!r} twice")
        return fields

    try:
        fields = json.loads(header.decode("utf-8"), object_pairs_hook=unique)
    except UnicodeDecodeError:
        raise BadFile("the header is not UTF-8") from None
    except (json.JSONDecodeError, RecursionError) as error:
        detail = error.msg if isinstance(error, json.JSONDecodeError) else "it is nested too deeply"
        raise BadFile(f"the header is not JSON: {detail}") from None
    except ValueError as error:
        raise BadFile(str(error)) from None
    if not isinstance(fields, dict):
        raise BadFile("the header is not a JSON object")
    return fields


def _tensor(name: str, entry: Any, size: int) -> StoredTensor:
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
        raise BadFile(f"tensor {name!r} does not say dtype, shape and data_offsets")
    shape, offsets, text = entry["shape"], entry["data_offsets"], entry["dtype"]
    if (
        not isinstance(shape, list)
        or len(shape) > MAX_RANK
        or not all(type(n) is int and n >= 0 for n in shape)
    ):
        raise BadFile(f"the shape of tensor {name!r} is not a list of sizes")
    if (
        not isinstance(offsets, list)
        or len(offsets) != 2
        or not all(type(n) is int for n in offsets)
    ):
        raise BadFile(f"the offsets of tensor {name!r} are not two numbers")
    start, stop = offsets
    if not 0 <= start <= stop <= size:
        raise BadFile(
            f"tensor {name!r} lies at bytes {start:,} to {stop:,}, outside the {size:,} bytes of "
            "data"
        )
    if not isinstance(text, str):
        raise BadFile(f"the dtype of tensor {name!r} is not text")
    dtype = _DTYPES.get(text)
    if dtype is not None:
        count = 1
        for extent in shape:
            count *= extent
        if count * dtype.nbytes != stop - start:
            raise BadFile(
                f"tensor {name!r} of {count:,} {text} elements has {stop - start:,} bytes"
            )
    return StoredTensor(dtype or text, tuple(shape), start, stop)


@dataclass(frozen=True, slots=True)
class TensorSource:
    """A tensor to be written: its type, and a function that gives its elements when they are
    written.
    """

    type: Type
    read: Callable[[], Array]


def write_tensors(
    path: Path,
    tensors: Mapping[str, TensorSource],
    progress: Callable[[int, int], None] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes tensors and metadata to a file, with one tensor in memory at a time, each aligned for
    its type.

    `progress` is called with the bytes written and the total.
    """
    # in order of alignment, so that none needs padding
    ordered = sorted(tensors, key=lambda name: -tensors[name].type.dtype.nbytes)
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    total = 0
    for name in ordered:
        type = tensors[name].type
        header[name] = {
            "dtype": _NAMES[type.dtype],
            "shape": list(static(type.shape)),
            "data_offsets": [total, total + type.nbytes],
        }
        total += type.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-(len(text) + 8) % 64)
    done = 0
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in ordered:
            array = tensors[name].read()
            if (
                array.dtype != tensors[name].type.dtype.numpy
                or array.shape != tensors[name].type.shape
            ):
                raise BadFile(
                    f"tensor {name!r} is {array.dtype}{list(array.shape)}, and was to be "
                    f"{tensors[name].type}"
                )
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            for start in range(0, len(data), CHUNK):
                file.write(data[start : start + CHUNK])
                done += len(data[start : start + CHUNK])
                if progress is not None:
                    progress(done, total)
