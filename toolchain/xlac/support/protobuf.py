"""Protobuf's wire format: a key, then a varint, 8 or 4 bytes, or a length-prefixed string of
bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, COUNTED, FIXED32 = 0, 1, 2, 5


class MalformedProtobuf(ValueError):
    """Bytes that are not a valid protobuf."""


def fields(buffer: memoryview, start: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """The start, number, wire type, and start and end of the content of each field."""
    at = start
    while at < end:
        begin = at
        key, at = _read(buffer, at, end)
        field, wire = key >> 3, key & 7
        if wire == COUNTED:
            size, at = _read(buffer, at, end)
            stop = at + size
        elif wire == VARINT:
            _, stop = _read(buffer, at, end)
        elif wire in (FIXED64, FIXED32):
            stop = at + (8 if wire == FIXED64 else 4)
        else:
            raise MalformedProtobuf(f"wire type {wire} at byte {begin}")
        if stop > end or field == 0:
            raise MalformedProtobuf(f"the field at byte {begin} goes beyond its message")
        yield begin, field, wire, at, stop
        at = stop


def _read(buffer: memoryview, at: int, end: int) -> tuple[int, int]:
    """A varint and the position after it."""
    number = shift = 0
    while at < end and shift < 64:
        byte = buffer[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
    raise MalformedProtobuf(f"a number at byte {at} does not end")


class ProtobufMessage:
    """The fields of a message by number, in the order of the bytes. Raises MalformedProtobuf."""

    def __init__(self, data: memoryview) -> None:
        self._fields: dict[int, list[memoryview | int]] = {}
        for _, field, wire, begin, stop in fields(data, 0, len(data)):
            content = _read(data, begin, stop)[0] if wire == VARINT else data[begin:stop]
            self._fields.setdefault(field, []).append(content)

    def messages(self, field: int) -> list[ProtobufMessage]:
        """The messages of a repeated field."""
        return [ProtobufMessage(each) for each in self.bytes(field)]

    def bytes(self, field: int) -> list[memoryview]:
        """The contents of a repeated field of text, bytes or messages."""
        contents = self._fields.get(field, [])
        if not all(isinstance(each, memoryview) for each in contents):
            raise MalformedProtobuf(f"field {field} is a number")
        return [each for each in contents if isinstance(each, memoryview)]

    def texts(self, field: int) -> list[str]:
        """The contents of a repeated field of text."""
        return [bytes(each).decode("utf-8", "replace") for each in self.bytes(field)]

    def text(self, field: int) -> str:
        """The content of a field of text; "" where it is left out."""
        return next(reversed(self.texts(field)), "")

    def number(self, field: int) -> int:
        """The content of a field of integers, as signed 64 bits; 0 where it is left out."""
        found = self._fields.get(field, [0])[-1]
        if not isinstance(found, int):
            raise MalformedProtobuf(f"field {field} is no number")
        return found - (1 << 64) if found >> 63 else found

    def entries(self, field: int) -> dict[str, ProtobufMessage]:
        """A map from text to messages."""
        pairs = self.messages(field)
        return {pair.text(1): next(reversed(pair.messages(2)), EMPTY) for pair in pairs}


EMPTY = ProtobufMessage(memoryview(b""))
