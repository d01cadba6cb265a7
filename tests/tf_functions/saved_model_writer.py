"""Writes the file of a SavedModel, whose messages are those of saved_model.proto."""

from __future__ import annotations


def field(number: int, content: bytes | str | int) -> bytes:
    """A field of a message: text, bytes or a number below 128."""
    if isinstance(content, int):
        return bytes([number << 3, content])
    data = content.encode() if isinstance(content, str) else content
    size = len(data)
    length = [size] if size < 128 else [size & 127 | 128, size >> 7]
    return bytes([number << 3 | 2, *length]) + data


def entry(number: int, key: str, value: bytes) -> bytes:
    """An entry of a map."""
    return field(number, field(1, key) + field(2, value))


def tensor(name: str, dtype: int, *sizes: int) -> bytes:
    """A TensorInfo."""
    shape = b"".join(field(2, field(1, size)) for size in sizes)
    return field(1, name) + field(2, dtype) + field(3, shape)


def node(name: str, operation: str, *inputs: str, calls: str = "") -> bytes:
    """A NodeDef."""
    texts = b"".join(field(3, text) for text in inputs)
    called = entry(5, "f", field(10, field(1, calls))) if calls else b""
    return field(1, name) + field(2, operation) + texts + called


def saved() -> bytes:
    """A SavedModel with a signature of numbers, and one of text that a function works on; the
    function calls itself.
    """
    good = entry(1, "x", tensor("x:0", 1, 2, 4)) + entry(2, "y", tensor("relu:0", 1, 2, 4))
    text = entry(1, "t", tensor("t:0", 7, 2)) + entry(2, "n", tensor("call:0", 3, 2))
    nodes = (
        node("x", "Placeholder"),
        node("relu", "Relu", "x"),
        node("t", "Placeholder"),
        node("table", "HashTableV2"),
        node("unused", "ReadFile"),
        node("call", "StatefulPartitionedCall", "t:0", "^table", calls="inner"),
    )
    inner = (node("length", "StringLength"), node("again", "PartitionedCall", calls="inner"))
    function = field(1, field(1, "inner")) + b"".join(field(3, n) for n in inner)
    graph = b"".join(field(1, n) for n in nodes) + field(2, field(1, function))
    meta = field(1, field(4, "serve")) + field(2, graph)
    meta += entry(5, "serving_default", good) + entry(5, "text", text)
    return field(1, 1) + field(2, meta)
