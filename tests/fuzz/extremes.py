"""Every number of a model at its extremes, one at a time: attributes, sizes and small integer data
of ONNX, StableHLO and specs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xlac.frontends.onnx.file.messages import messages

EXTREMES = (1 << 31, (1 << 63) - 1, -1, -(1 << 63), 1 << 20)


def onnx_models(data: bytes) -> Iterator[tuple[str, bytes]]:
    """A model of one node with each integer of its node, its inputs' shapes and its constants
    replaced.
    """
    model = messages().ModelProto()
    model.ParseFromString(data)

    def changed(what: str, holder: Any, field: str, at: int | None) -> Iterator[tuple[str, bytes]]:
        held = getattr(holder, field)
        before = held if at is None else held[at]
        for value in EXTREMES:
            if at is None:
                setattr(holder, field, value)
            else:
                held[at] = value
            yield f"{what} {value}", model.SerializeToString()
        if at is None:
            setattr(holder, field, before)
        else:
            held[at] = before

    for node in model.graph.node:
        for attribute in node.attribute:
            name = f"{node.op_type}.{attribute.name}"
            if attribute.type == attribute.INT:
                yield from changed(name, attribute, "i", None)
            for at in range(min(len(attribute.ints), 3)):
                yield from changed(f"{name}[{at}]", attribute, "ints", at)
            if attribute.type == attribute.TENSOR:
                yield from tensor(name, attribute.t, model)
    for info in model.graph.input:
        for at, dim in enumerate(info.type.tensor_type.shape.dim):
            if dim.HasField("dim_value"):
                yield from changed(
                    f"{model.graph.node[0].op_type}: {info.name}.shape[{at}]",
                    dim,
                    "dim_value",
                    None,
                )
    for held in model.graph.initializer:
        yield from tensor(f"{model.graph.node[0].op_type}: {held.name}", held, model)


def tensor(name: str, held: Any, model: Any) -> Iterator[tuple[str, bytes]]:
    """A tensor of few int64 with each replaced."""
    if held.data_type != held.INT64 or len(held.raw_data) > 64:
        return
    before = held.raw_data
    for at in range(len(before) // 8):
        for value in EXTREMES:
            array = np.frombuffer(before, np.int64).copy()
            array[at] = value
            held.raw_data = array.tobytes()
            yield f"{name}[{at}] = {value}", model.SerializeToString()
    held.raw_data = before


def stablehlo_text(data: bytes) -> Iterator[tuple[str, bytes]]:
    """A program with each whole number of it replaced, also in types."""
    return numbers(data.decode(), r"(?<![\w.%#])-?\d+(?![\w.]*[.\d])|(?<=[<x])\d+(?=x)", EXTREMES)


def specs(data: bytes) -> Iterator[tuple[str, bytes]]:
    """A spec with each whole number of it replaced, but for the version of the language."""
    return numbers(data.decode(), r"(?<![\w.$])(?<!xlac: )-?\d+(?![\w.])", (*EXTREMES, 1 << 64))


def numbers(text: str, pattern: str, values: Sequence[int]) -> Iterator[tuple[str, bytes]]:
    """The text with what matches replaced, one at a time."""
    for found in re.finditer(pattern, text):
        for value in values:
            line = text.count("\n", 0, found.start()) + 1
            yield (
                f"line {line}: {found.group()} = {value}",
                (text[: found.start()] + str(value) + text[found.end() :]).encode(),
            )
