"""HDF5 files, read so that nothing outside them is opened and nothing larger than they are is made.

Only hard links are followed, one name at a time; data must be stored in the file as they are.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from xlac.frontends.keras.file.global_heaps import check_global_heaps
from xlac.frontends.keras.file.malformed import MalformedKerasFile, UnsafeKerasFile
from xlac.ir.op import Array

NAMES = 100_000  # the most texts in an attribute
KINDS = "fiub"  # floats, integers and booleans, as NumPy calls them


class Hdf5File:
    """An open file, or the bytes of one. Raises MalformedKerasFile."""

    def __init__(self, source: Path | bytes) -> None:
        self.size = len(source) if isinstance(source, bytes) else source.stat().st_size
        check_global_heaps(source)
        with _checked("/"):
            self.root = h5py.File(io.BytesIO(source) if isinstance(source, bytes) else source, "r")
            if self.root.id.get_create_plist().get_sizes() != (8, 8):
                raise MalformedKerasFile("its addresses and lengths do not have 8 bytes")

    def group(self, at: Any, name: str) -> Any | None:
        """The group that a group has under a name; None if there is nothing."""
        group = _linked(at, name)
        if group is not None and not isinstance(group, h5py.Group):
            raise MalformedKerasFile(f"'{_path(at, name)}' is not a group")
        return group

    def array(self, at: Any, name: str) -> Array | None:
        """The array that a group has under a name; None if there is nothing."""
        dataset = _linked(at, name)
        path = _path(at, name)
        if dataset is None:
            return None
        if not isinstance(dataset, h5py.Dataset):
            raise MalformedKerasFile(f"'{path}' is not an array")
        with _checked(path):
            return self._read(dataset, path)

    def _read(self, dataset: Any, path: str) -> Array:
        if dataset.external:
            raise UnsafeKerasFile(f"array '{path}' is in another file, '{dataset.external[0][0]}'")
        if dataset.is_virtual:
            raise UnsafeKerasFile(f"array '{path}' is made of arrays of other files")
        dtype, shape = dataset.dtype, dataset.shape
        if dtype.kind not in KINDS or shape is None:
            raise MalformedKerasFile(f"array '{path}' holds no numbers, but {dtype}")
        if dataset.id.get_create_plist().get_nfilters():
            raise UnsafeKerasFile(
                f"array '{path}' is compressed, which Keras does not do: save the model anew"
            )
        wanted = math.prod(shape) * dtype.itemsize
        if wanted > min(dataset.id.get_storage_size(), self.size):
            raise UnsafeKerasFile(
                f"array '{path}' of shape {list(shape)} has fewer bytes in the file than its "
                "elements need"
            )
        array: Array = np.asarray(dataset[()])
        return array

    def text(self, at: Any, name: str) -> str | None:
        """The text of an attribute; None if there is none."""
        parts = self.texts(at, name)
        return None if parts is None else "".join(parts)

    def texts(self, at: Any, name: str) -> list[str] | None:
        """The texts of an attribute; None if there is none."""
        path = f"{at.name}@{name}"
        with _checked(path):
            if name not in at.attrs:
                return None
            kept = at.attrs.get_id(name)
            count = math.prod(kept.shape or ())
            if count and kept.get_type().get_class() != h5py.h5t.STRING:
                # reading a sequence whose place is wrong can end the process
                raise MalformedKerasFile(f"attribute '{path}' is not text")
            if count and (count > NAMES or kept.get_storage_size() > self.size):
                raise UnsafeKerasFile(f"attribute '{path}' is larger than the file")
            items = np.atleast_1d(np.asarray(at.attrs[name], dtype=object)).reshape(-1).tolist()
            if any(not isinstance(item, str | bytes) for item in items):
                raise MalformedKerasFile(f"attribute '{path}' is not text")
            return [i.decode("utf-8") if isinstance(i, bytes) else i for i in items]


def _linked(at: Any, name: str) -> Any | None:
    """What a group has under a name by a hard link. Raises UnsafeKerasFile for other links."""
    path = _path(at, name)
    with _checked(path):
        if not at.id.links.exists(name.encode()):
            return None
        link = at.get(name, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            raise UnsafeKerasFile(f"'{path}' is a link to '{link.path}' in '{link.filename}'")
        if not isinstance(link, h5py.HardLink):
            raise UnsafeKerasFile(f"'{path}' is a link to '{getattr(link, 'path', '?')}'")
        return at[name]


def _path(at: Any, name: str) -> str:
    return f"{str(at.name).rstrip('/')}/{name}"


FAILURES = (
    OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError, OverflowError,
    MemoryError, NotImplementedError, SystemError,
)  # fmt: skip
"""What the HDF5 library and h5py raise for files that are not right."""


@contextmanager
def _checked(path: str) -> Iterator[None]:
    """What the library raises, as MalformedKerasFile with the place."""
    try:
        yield
    except FAILURES as error:
        raise MalformedKerasFile(f"'{path}' cannot be read: {str(error)[:200]}") from None
