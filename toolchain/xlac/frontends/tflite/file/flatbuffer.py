"""Reads FlatBuffers by a schema, checking every offset and size against the file before it is used.

A table is a signed offset to its vtable, followed by its fields. The vtable has its own size, the
size of the table, and for each field its offset in the table, 0 where it is absent. Vectors,
strings and tables lie after the offsets that refer to them, so there are no cycles; since a
malicious file may refer to one part many times, the number of elements read is bounded.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from xlac.frontends.tflite.file.schema import SCALARS, Field, schema

FORMATS = {
    "bool": "<?", "i8": "<b", "u8": "<B", "i16": "<h", "u16": "<H", "i32": "<i", "u32": "<I",
    "f32": "<f", "i64": "<q", "u64": "<Q", "f64": "<d",
}  # fmt: skip
DTYPES = {"bool": "u1", "u8": "u1"} | {
    kind: f"<{kind[0]}{size}" for kind, size in SCALARS.items() if kind not in ("bool", "u8")
}
LEAST = 1 << 16  # elements that may be read from any file


class MalformedFlatBuffer(ValueError):
    """Bytes that are not a FlatBuffer of the schema."""


class FlatBuffer:
    """The bytes of a file. All access goes through `take`, which checks bounds."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self._left = max(LEAST, 2 * len(data))  # elements and tables that may still be read

    def root(self, table: str) -> FlatBufferTable:
        """The root table of the file. Raises MalformedFlatBuffer."""
        return FlatBufferTable(self, self.offset(0), table)

    def scalar(self, kind: str, at: int) -> Any:
        """The number of a scalar type at byte `at`."""
        self.within(at, SCALARS[kind])
        return struct.unpack_from(FORMATS[kind], self.data, at)[0]

    def offset(self, at: int) -> int:
        """The target of the unsigned offset at byte `at`."""
        return at + int(self.scalar("u32", at))

    def within(self, at: int, size: int) -> None:
        """Raises MalformedFlatBuffer unless all bytes lie inside the file."""
        if at < 0 or size < 0 or at + size > len(self.data):
            raise MalformedFlatBuffer(
                f"{size} bytes at byte {at} lie outside the file, which has {len(self.data)}"
            )

    def count(self, elements: int) -> None:
        """Counts elements read, and rejects a file that refers to its parts too often."""
        self._left -= elements
        if self._left < 0:
            raise MalformedFlatBuffer("its tables and vectors are shared too often")

    def vector(self, at: int, size: int) -> tuple[int, int]:
        """The byte of the first element and the number of elements of a vector, which lies entirely
        inside the file.
        """
        count = int(self.scalar("u32", at))
        self.within(at + 4, count * size)
        return at + 4, count


class FlatBufferTable:
    """A table of a FlatBuffer; `table["name"]` is the value of a field.

    Scalars are Python numbers, strings str, vectors of bytes memoryviews of the file, vectors of
    other scalars lists, vectors of tables lists of these; an absent field is its default, None or
    an empty list.
    """

    __slots__ = ("_at", "_fields", "_file", "_slots", "_table_size", "_vtable", "name")

    def __init__(self, file: FlatBuffer, at: int, name: str) -> None:
        file.count(1)
        self._file, self._at, self.name = file, at, name
        self._fields = schema().tables.get(name, {})
        self._vtable = at - int(file.scalar("i32", at))
        size = int(file.scalar("u16", self._vtable))
        self._table_size = int(file.scalar("u16", self._vtable + 2))
        if size < 4 or size % 2:
            raise MalformedFlatBuffer(f"the vtable of {name} at byte {at} has {size} bytes")
        file.within(self._vtable, size)
        file.within(at, self._table_size)
        self._slots = (size - 4) // 2

    def __contains__(self, name: str) -> bool:
        """Whether the schema has such a field."""
        return name in self._fields

    def __getitem__(self, name: str) -> Any:
        field = self._fields[name]
        at = self._place(field)
        if at is None:
            return [] if field.many else field.default
        if field.many:
            return self._vector(self._file.offset(at), field.kind)
        if field.kind in SCALARS:
            return self._file.scalar(field.kind, at)
        if field.kind == "string":
            return self._string(self._file.offset(at))
        return FlatBufferTable(self._file, self._file.offset(at), field.kind)

    def bytes(self, name: str) -> memoryview | None:
        """A vector of bytes, as a view of the file; None where it is absent."""
        at = self._place(self._fields[name])
        if at is None:
            return None
        start, count = self._file.vector(self._file.offset(at), 1)
        return self._file.data[start : start + count]

    def union(self, name: str, kind: str) -> FlatBufferTable | None:
        """The table in a union's field, which is of the schema's type `kind`; None where it is
        absent.
        """
        at = self._place(self._fields[name])
        chosen = schema().enums[kind].get(self[f"{name}_type"])
        if at is None or chosen in (None, "NONE"):
            return None
        return FlatBufferTable(self._file, self._file.offset(at), str(chosen))

    def _place(self, field: Field) -> int | None:
        """The byte of a field, or None where it is absent."""
        if field.slot >= self._slots:
            return None
        inside = int(self._file.scalar("u16", self._vtable + 4 + 2 * field.slot))
        if not inside:
            return None
        size = SCALARS.get(field.kind, 4) if not field.many else 4
        if inside + size > self._table_size:
            raise MalformedFlatBuffer(
                f"a field of {self.name} at byte {self._at} lies outside its table"
            )
        return self._at + inside

    def _string(self, at: int) -> str:
        start, count = self._file.vector(at, 1)
        self._file.count(count)
        try:
            return bytes(self._file.data[start : start + count]).decode()
        except UnicodeDecodeError:
            raise MalformedFlatBuffer(f"the text at byte {start} is not UTF-8") from None

    def _vector(self, at: int, kind: str) -> Any:
        start, count = self._file.vector(at, SCALARS.get(kind, 4))
        self._file.count(count)
        if kind in SCALARS:
            return np.frombuffer(self._file.data, DTYPES[kind], count, start).tolist()
        places = range(start, start + 4 * count, 4)
        if kind == "string":
            return [self._string(self._file.offset(place)) for place in places]
        return [FlatBufferTable(self._file, self._file.offset(place), kind) for place in places]
