"""Sequences and optionals, whose lengths are known at import (ONNX operator sets 11 to 28)."""

from __future__ import annotations

import numpy as np

from xlac.frontends.limits import check_parts
from xlac.frontends.onnx.graph import bodies
from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.graph.values import Optional, Sequence, Value
from xlac.frontends.onnx.registry import operator
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import normal_axis
from xlac.ops import build


def sequence(call: OperatorCall, number: int) -> Sequence:
    """An input that must be a sequence."""
    value = call.given(number)
    if isinstance(value, Optional) and isinstance(value.held, Sequence):
        value = value.held
    if not isinstance(value, Sequence):
        call.fail(f"input {number} is not a sequence")
    return value


def tensors(call: OperatorCall, number: int) -> list[Node]:
    """The items of a sequence, which must be plain tensors."""
    items = sequence(call, number).items
    plain = [item for item in items if isinstance(item, Node)]
    if len(plain) < len(items):
        call.fail(f"the sequence of input {number} has items that are not plain tensors")
    return plain


def position(call: OperatorCall, number: int, length: int, default: int | None = None) -> int:
    """A position in a sequence of a length, from an input; negative ones count from the end."""
    if call.given(number) is None:
        assert default is not None
        return default
    place = int(call.value(number).reshape(-1)[0])
    if not -length <= place < length:
        call.fail(f"position {place} is outside a sequence of {length}")
    return place % length if length else 0


ITEMS = 4096  # of a sequence that a size of one number makes: a file names none of them


@operator("SequenceEmpty", since=11)
def sequence_empty(call: OperatorCall) -> Value:
    """An empty sequence. Sequences exist only during import."""
    return Sequence(())


@operator("SequenceConstruct", since=11)
def sequence_construct(call: OperatorCall) -> Value:
    """The inputs as a sequence."""
    return Sequence(tuple(v for v in call.inputs if v is not None))


@operator("SequenceInsert", since=11)
def sequence_insert(call: OperatorCall) -> Value:
    """Inserts an item; its position must be a constant."""
    items, item = sequence(call, 0).items, call.given(1)
    assert item is not None
    if call.given(2) is None:
        return Sequence((*items, item))
    at = int(call.value(2).reshape(-1)[0])
    if not -len(items) <= at <= len(items):
        call.fail(f"position {at} is outside a sequence of {len(items)}")
    at = at + len(items) if at < 0 else at
    return Sequence((*items[:at], item, *items[at:]))


@operator("SequenceErase", since=11)
def sequence_erase(call: OperatorCall) -> Value:
    """Removes an item, the last by default."""
    items = sequence(call, 0).items
    at = position(call, 1, len(items), len(items) - 1)
    return Sequence((*items[:at], *items[at + 1 :]))


@operator("SequenceAt", since=11)
def sequence_at(call: OperatorCall) -> Value:
    """The item at a constant position."""
    items = sequence(call, 0).items
    return items[position(call, 1, len(items))]


@operator("SequenceLength", since=11)
def sequence_length(call: OperatorCall) -> Node:
    """The number of items, a constant."""
    return build.constant(np.asarray(len(sequence(call, 0).items), np.int64))


@operator("ConcatFromSequence", since=11)
def concat_from_sequence(call: OperatorCall) -> Node:
    """The items joined along an axis, or with `new_axis` along a new one."""
    items, axis = tensors(call, 0), call.attr("axis")
    return (
        build.apply1("stack", *items, axis=axis)
        if call.attr("new_axis", 0)
        else build.concat(items, axis)
    )


@operator("SplitToSequence", since=11)
def split_to_sequence(call: OperatorCall) -> Value:
    """Parts of one size (the last may be smaller), of the given sizes, or single slices."""
    x = call[0]
    axis = normal_axis(call.attr("axis", 0), x.type.rank)
    extent = x.shape[axis]
    sizes: list[Dim] = []
    if call.given(1) is not None and call[1].type.rank == 1:
        sizes = [int(v) for v in call.value(1)]
    else:
        each = 1 if call.given(1) is None else int(call.value(1).reshape(()))
        if not isinstance(extent, int) or each < 1:
            call.fail(f"axis {axis} of {x.type} cannot be split into parts of {each}")
        check_parts(-(-extent // each), ITEMS)
        sizes = [min(each, extent - start) for start in range(0, extent, each)]
    parts_of_x: list[Value] = []
    start: Dim = 0
    for size in sizes:
        part = build.cut(x, axis, start, start + size)
        single = call.given(1) is None and not call.attr("keepdims", 1)
        parts_of_x.append(build.apply1("squeeze", part, axis=axis) if single else part)
        start = start + size
    return Sequence(tuple(parts_of_x))


@operator("SequenceMap", since=17)
def sequence_map(call: OperatorCall) -> tuple[Value, ...]:
    """The body applied to each item; further sequences are zipped with the first, tensors are
    shared by all items.
    """
    graph = call.attr("body")
    rows = []
    for number in range(len(sequence(call, 0).items)):
        inputs = []
        for value in call.inputs:
            assert value is not None
            inputs.append(value.items[number] if isinstance(value, Sequence) else value)
        rows.append(bodies.inline(call.importer, graph, inputs))
    return tuple(Sequence(tuple(column)) for column in zip(*rows, strict=True)) or (
        Sequence(()),
    ) * len(graph.output)


@operator("Optional", since=15)
def optional(call: OperatorCall) -> Value:
    """An optional with or without a value. Like sequences it exists only during import."""
    return Optional(call.given(0))


@operator("OptionalHasElement", since=15)
def optional_has_element(call: OperatorCall) -> Node:
    """Whether there is a value, a constant."""
    value = call.given(0)
    return build.constant(
        np.asarray(
            value is not None and (not isinstance(value, Optional) or value.held is not None)
        )
    )


@operator("OptionalGetElement", since=15)
def optional_get_element(call: OperatorCall) -> Value:
    """The optional's value; any other value is returned as it is."""
    value = call.given(0)
    if value is None or (isinstance(value, Optional) and value.held is None):
        call.fail("the optional holds nothing")
    return value.held if isinstance(value, Optional) and value.held is not None else value
