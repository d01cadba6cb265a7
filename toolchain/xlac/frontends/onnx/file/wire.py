"""Rewrites the protobuf of an .onnx file so that tensor data stays in the file.

Parsing a file of weights with the protobuf library copies all of them. Here the file is mapped, its
fields are walked, and a smaller protobuf is made in which long `raw_data` is replaced by a
reference to its offset in the file, in the form of ONNX's external data.
"""

from __future__ import annotations

from xlac.support.protobuf import COUNTED, VARINT, MalformedProtobuf, fields

LONG = 4096  # bytes; shorter data is copied
DEPTH = 100  # the most nesting of messages, as in the protobuf library

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
    for at, field, wire, begin, stop in fields(buffer, start, end):
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
