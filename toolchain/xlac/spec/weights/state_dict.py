"""PyTorch state dicts, as torch.save has written them since 1.6, read without PyTorch and without
running code from the file.

A file is a zip archive: `data.pkl` is a pickle of names and tensors, `data/KEY` the elements of
each storage. Only the pickle instructions that torch.save writes are accepted, and only functions
that rebuild tensors are called (https://docs.pytorch.org/docs/stable/notes/serialization.html).
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from xlac.ir.op import Array
from xlac.spec.weights.archive import Archive
from xlac.spec.weights.tensor_files import MAX_RANK, MAX_TENSORS, BadFile, StoredTensor, lacking
from xlac_sdk.dtypes import DType

MAX_PICKLE = 64 << 20
ALONE = "save the state dict of the model alone, torch.save(model.state_dict(), file)"
MAX_DEPTH = 32  # nesting of dictionaries
STORAGES = {
    "DoubleStorage": DType.F64, "FloatStorage": DType.F32, "HalfStorage": DType.F16,
    "BFloat16Storage": DType.BF16, "LongStorage": DType.I64, "IntStorage": DType.I32,
    "ShortStorage": DType.I16, "CharStorage": DType.I8, "ByteStorage": DType.U8,
    "BoolStorage": DType.BOOL,
}  # fmt: skip
INSTRUCTIONS = frozenset(
    """PROTO FRAME STOP MARK EMPTY_DICT EMPTY_LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2
    TUPLE3 APPEND APPENDS SETITEM SETITEMS BINPUT LONG_BINPUT MEMOIZE BINGET
    LONG_BINGET GLOBAL STACK_GLOBAL BINPERSID REDUCE BUILD NONE NEWTRUE NEWFALSE
    BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE SHORT_BINUNICODE BINBYTES
    SHORT_BINBYTES""".split()
)


@dataclass(frozen=True, slots=True)
class Storage:
    """A storage that tensors view: a member of the archive."""

    dtype: DType | str
    key: str
    count: int


@dataclass(frozen=True, slots=True)
class StorageView:
    """A tensor: a strided view of a storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class StateDict:
    """The tensors of a file by name; names in nested dictionaries are joined by dots, and other
    values are omitted. `tree` is the unchecked dictionary itself, with numbers, text and lists.
    """

    def __init__(self, archive: Archive) -> None:
        self.archive, self.path = archive, archive.path
        self.root = next(
            name for name in archive.members if name.endswith("/data.pkl")
        ).removesuffix("data.pkl")
        if self._member("byteorder") and archive.read(self.root + "byteorder", 8) not in (
            b"",
            b"little",
        ):
            raise BadFile("it was written by a big-endian machine")
        info = archive.members[f"{self.root}data.pkl"]
        if info.file_size > MAX_PICKLE:
            raise BadFile(
                f"its data.pkl has {info.file_size:,} bytes; at most {MAX_PICKLE:,} are read"
            )
        self.tree = _unpickled(archive.read(info.filename, info.file_size))
        self.views = dict(_tensors(self.tree))
        self._tensors = {
            name: StoredTensor(view.storage.dtype, view.shape) for name, view in self.views.items()
        }
        for name, view in self.views.items():
            self._check(name, view)

    @property
    def tensors(self) -> Mapping[str, StoredTensor]:
        """The tensors of the checkpoint by name."""
        return self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __getitem__(self, name: str) -> Array:
        view = self.views[name]
        dtype = lacking(name, view.storage.dtype)
        size = view.storage.count * dtype.nbytes
        data = self.archive.read(f"{self.root}data/{view.storage.key}", size)
        if len(data) != size:
            raise BadFile(f"tensor {name!r} is truncated")
        array = np.empty(view.shape, dtype.numpy)
        if array.size:
            elements = np.frombuffer(data, dtype.numpy)[view.offset :]
            array[...] = np.lib.stride_tricks.as_strided(
                elements, view.shape, [s * dtype.nbytes for s in view.strides]
            )
        array.flags.writeable = False
        return array

    def _member(self, name: str) -> bool:
        return self.root + name in self.archive.members

    def _check(self, name: str, view: StorageView) -> None:
        """Raises BadFile for a tensor that exceeds its storage, and for an incomplete storage."""
        shape, strides = view.shape, view.strides
        if (
            len(shape) > MAX_RANK
            or len(shape) != len(strides)
            or view.offset < 0
            or min((*shape, *strides), default=0) < 0
        ):
            raise BadFile(f"tensor {name!r} has no shape")
        last = view.offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        if prod(shape) and last >= view.storage.count:
            raise BadFile(f"tensor {name!r} reaches element {last:,} of {view.storage.count:,}")
        key = f"data/{view.storage.key}"
        if not self._member(key):
            raise BadFile(f"its member {key[:80]!r} is missing")
        if isinstance(view.storage.dtype, DType):
            held = self.archive.members[self.root + key].file_size
            if held != view.storage.count * view.storage.dtype.nbytes:
                raise BadFile(
                    f"the storage of tensor {name!r} has {held:,} bytes for {view.storage.count:,} "
                    f"{view.storage.dtype} elements"
                )


# ---- the pickle --------------------------------------------------------------------------------


def _unpickled(data: bytes) -> Any:
    """The value of a pickle written by torch.save. Raises BadFile."""
    try:
        for count, (instruction, argument, _) in enumerate(pickletools.genops(data)):
            if instruction.name not in INSTRUCTIONS:
                raise BadFile(
                    f"its pickle has the instruction {instruction.name}, which a state dict lacks: "
                    f"{ALONE}"
                )
            if instruction.name == "LONG_BINPUT" and (argument or 0) > count:
                raise BadFile("its pickle numbers its parts at random")
        return _Unpickler(io.BytesIO(data)).load()
    except BadFile:
        raise
    except Exception as error:  # pickle raises many types of exceptions
        raise BadFile(f"its pickle is damaged: {error}") from None


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module in ("torch", "torch.storage") and name.endswith("Storage"):
            return _StorageType(STORAGES.get(name, name))
        if (module, name) not in CALLED:
            raise BadFile(f"it holds a {module}.{name}, which is not a tensor: {ALONE}")
        return CALLED[module, name]

    def persistent_load(self, record: Any) -> Storage:
        if (
            not isinstance(record, tuple)
            or len(record) != 5
            or record[0] != "storage"
            or not isinstance(record[1], _StorageType)
        ):
            raise BadFile("it refers to something that is not a storage")
        _, kind, key, _, count = record
        if not isinstance(key, str) or type(count) is not int or count < 0:
            raise BadFile("a storage of it has no name or size")
        return Storage(kind.dtype, key, count)


@dataclass(frozen=True, slots=True)
class _StorageType:
    dtype: DType | str


class _Ordered(dict[Any, Any]):
    """A collections.OrderedDict whose attributes (versions of modules) are ignored."""

    def __setstate__(self, state: Any) -> None:
        pass


def _ordered(*pairs: Any) -> _Ordered:
    return _Ordered(*pairs)


def _view(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> StorageView:
    numbers = (offset, *shape, *strides)
    if not isinstance(storage, Storage) or not all(type(n) is int for n in numbers):
        raise BadFile("a tensor of it has no storage, offset or shape")
    return StorageView(storage, offset, tuple(shape), tuple(strides))


def _parameter(data: Any, *_: Any) -> Any:
    return data


CALLED = {
    ("collections", "OrderedDict"): _ordered,
    ("torch._utils", "_rebuild_tensor_v2"): _view,
    ("torch._utils", "_rebuild_tensor"): _view,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    ("torch", "Size"): tuple,
}


def _tensors(
    content: Any, prefix: str = "", depth: int = 0, count: list[int] | None = None
) -> Iterator[tuple[str, StorageView]]:
    """The tensors of nested dictionaries, by their path."""
    count = [0] if count is None else count
    if not isinstance(content, dict):
        raise BadFile(f"it holds no dictionary of tensors: {ALONE}")
    if depth > MAX_DEPTH:
        raise BadFile("its dictionaries are nested too deeply")
    for key, value in content.items():
        count[0] += 1
        if count[0] > MAX_TENSORS:
            raise BadFile(f"it holds more than {MAX_TENSORS:,} names")
        if isinstance(value, StorageView):
            yield f"{prefix}{key}", value
        elif isinstance(value, dict):
            yield from _tensors(value, f"{prefix}{key}.", depth + 1, count)
