"""Rewrites the protobuf of an .onnx file so that tensor data stays in the file.

Parsing a file of weights with the protobuf library copies all of them. Here the file is mapped, its
fields are walked (protobuf's wire format: a key, then a varint, 8 or 4 bytes, or a length-prefixed
string of bytes), and a smaller protobuf is made in which long `raw_data` is replaced by a reference
to its offset in the file, in the form of ONNX's external data.
"""

from __future__ import annotations

from collections.abc import Iterator

LONG = 4096  # bytes; shorter data is copied
DEPTH = 100  # the most nesting of messages, as in the protobuf library

VARINT, FIXED64, COUNTED, FIXED32 = 0, 1, 2, 5
RAW_DATA, EXTERNAL_DATA, DATA_LOCATION = 9, 13, 14  # fields of TensorProto

INSIDE: dict[str, dict[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
"""Fields of messages that contain tensors: onnx.proto's ModelProto, GraphProto, FunctionProto,
NodeProto, …
"""


class MalformedProtobuf(ValueError):
    """Bytes that are not a valid protobuf."""


def without_data(buffer: memoryview, location: str) -> bytes:
    """A ModelProto whose long raw data is replaced by a reference to `location` and the data's
    offset there. Raises MalformedProtobuf.
    """
    return b"".join(_message(buffer, 0, len(buffer), "model", location, 0))


def _message(
    buffer: memoryview, start: int, end: int, kind: str, location: str, depth: int
) -> list[bytes | memoryview]:
    """The chunks of bytes of the rewritten message."""
    if depth > DEPTH:
        raise MalformedProtobuf(f"messages are nested more than {DEPTH} deep")
    parts: list[bytes | memoryview] = []
    placed = b""
    kept = start
    for at, field, wire, begin, stop in _fields(buffer, start, end):
        if wire != COUNTED or stop - begin <= LONG:
            continue
        if kind == "tensor" and field == RAW_DATA:
            parts.append(buffer[kept:at])
            placed = _placed(location, begin, stop - begin)
        elif field in INSIDE[kind]:
            inner = _message(buffer, begin, stop, INSIDE[kind][field], location, depth + 1)
            parts += [buffer[kept:at], _key(field, COUNTED), _varint(sum(map(len, inner))), *inner]
        else:
            continue
        kept = stop
    # appended last, since of a repeated field the last occurrence counts
    return [*parts, buffer[kept:end], placed]


def _fields(buffer: memoryview, start: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
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


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _key(field: int, wire: int) -> bytes:
    return _varint(field << 3 | wire)


def _placed(location: str, offset: int, length: int) -> bytes:
    """The TensorProto fields that state that its data is external."""
    fields = _key(DATA_LOCATION, VARINT) + _varint(1)
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        entry = b"".join(
            _key(n, COUNTED) + _varint(len(t)) + t
            for n, t in ((1, key.encode()), (2, value.encode()))
        )
        fields += _key(EXTERNAL_DATA, COUNTED) + _varint(len(entry)) + entry
    return fields
