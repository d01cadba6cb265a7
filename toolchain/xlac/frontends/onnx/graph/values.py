"""The values that names of an ONNX graph stand for during import."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xlac.ir.graph import Node


@dataclass(frozen=True, slots=True)
class Coded:
    """A tensor whose element type is narrower than any of xlac's: `node` holds codes, one in each
    u8 or i8.

    `format` is the name of the type: float8e4m3fn, float8e5m2, float4e2m1, uint4, int4, uint2,
    int2, …
    """

    node: Node
    format: str


@dataclass(frozen=True, slots=True)
class Ragged:
    """A tensor with data-dependent sizes: `node` has the shape of the upper bounds.

    `counts` has a pair (axis, i64 scalar) for each such axis: the number of valid entries, which
    come first. The contents of the other entries are undefined.
    """

    node: Node
    counts: tuple[tuple[int, Node], ...]


@dataclass(frozen=True, slots=True)
class Sequence:
    """An ONNX sequence; its length is known at import."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Optional:
    """An ONNX optional; whether it holds a value is known at import."""

    held: Value | None


Value = Node | Coded | Ragged | Sequence | Optional


def described(value: Value) -> str:
    """The kind of a value, for messages."""
    match value:
        case Coded():
            return f"a tensor of {value.format}"
        case Ragged():
            return "a tensor of data-dependent size"
        case Sequence():
            return "a sequence"
        case Optional():
            return "an optional"
    return "a tensor"


def nodes(value: Value | None) -> Iterator[Node]:
    """All nodes that a value consists of."""
    match value:
        case Node():
            yield value
        case Coded():
            yield value.node
        case Ragged():
            yield value.node
            yield from (count for _, count in value.counts)
        case Sequence():
            for item in value.items:
                yield from nodes(item)
        case Optional():
            yield from nodes(value.held)


def mapped(value: Value, change: dict[Node, Node]) -> Value:
    """The value with its nodes replaced."""
    match value:
        case Node():
            return change.get(value, value)
        case Coded():
            return Coded(change.get(value.node, value.node), value.format)
        case Ragged():
            counts = tuple((axis, change.get(count, count)) for axis, count in value.counts)
            return Ragged(change.get(value.node, value.node), counts)
        case Sequence():
            return Sequence(tuple(mapped(item, change) for item in value.items))
        case Optional():
            return Optional(None if value.held is None else mapped(value.held, change))
