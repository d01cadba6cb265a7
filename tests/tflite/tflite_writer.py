"""Writes TensorFlow Lite files by the schema, for tests: tables are dicts, and offsets point
forward, so a table is written before what it refers to.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlac.frontends.tflite.file.flatbuffer import FORMATS
from xlac.frontends.tflite.file.schema import SCALARS, schema

KINDS = {
    "f32": "FLOAT32", "f16": "FLOAT16", "i8": "INT8", "u8": "UINT8", "i16": "INT16",
    "i32": "INT32", "i64": "INT64", "bool": "BOOL", "u32": "UINT32", "c64": "COMPLEX64",
    "resource": "RESOURCE", "i4": "INT4", "string": "STRING",
}  # fmt: skip


def number(enum: str, name: str) -> int:
    """The number of a name in an enumeration of the schema."""
    return next(n for n, known in schema().enums[enum].items() if known == name)


class Writer:
    """A FlatBuffer that grows at its end."""

    def __init__(self) -> None:
        self.data = bytearray(b"\0\0\0\0TFL3")

    def file(self, model: Mapping[str, Any]) -> bytes:
        """The file of a Model."""
        at = self._table("Model", model)
        self.data[:4] = struct.pack("<I", at)
        return bytes(self.data)

    def _align(self, size: int, then: int = 0) -> None:
        self.data += b"\0" * (-(len(self.data) + then) % size)

    def _table(self, kind: str, values: Mapping[str, Any]) -> int:
        fields = schema().tables.get(kind, {})
        slots = [fields[name] for name in values]
        place, size = {}, 4
        for name in values:
            known = fields[name]
            width = SCALARS.get(known.kind, 4) if not known.many else 4
            size += -size % width
            place[name] = size
            size += width
        vtable = [0] * (max((known.slot for known in slots), default=-1) + 1)
        for name in values:
            vtable[fields[name].slot] = place[name]
        self._align(8, 4 + 2 * len(vtable))
        start = len(self.data)
        self.data += struct.pack(f"<HH{len(vtable)}H", 4 + 2 * len(vtable), size, *vtable)
        at = len(self.data)
        self.data += struct.pack("<i", at - start) + b"\0" * (size - 4)
        for name, value in values.items():
            known = fields[name]
            if known.kind in SCALARS and not known.many:
                struct.pack_into(FORMATS[known.kind], self.data, at + place[name], value)
            else:
                there = self._part(known.kind, known.many, value)
                struct.pack_into("<I", self.data, at + place[name], there - at - place[name])
        return at

    def _part(self, kind: str, many: bool, value: Any) -> int:
        if kind == "union":
            return self._table(value[0], value[1])
        if not many and kind == "string":
            return self._bytes(value.encode() + b"\0", len(value.encode()))
        if not many:
            return self._table(kind, value)
        if kind in SCALARS:
            data = (
                value
                if isinstance(value, bytes)
                else struct.pack(f"<{len(value)}{FORMATS[kind][1]}", *value)
            )
            return self._bytes(data, len(value))
        self._align(4)
        at = len(self.data)
        self.data += struct.pack("<I", len(value)) + b"\0" * (4 * len(value))
        for n, entry in enumerate(value):
            place = at + 4 + 4 * n
            there = self._part(kind, False, entry)
            struct.pack_into("<I", self.data, place, there - place)
        return at

    def _bytes(self, data: bytes, count: int) -> int:
        self._align(16, 4)
        at = len(self.data)
        self.data += struct.pack("<I", count) + data
        return at


@dataclass(frozen=True)
class Tensor:
    """A tensor of a test model: `dtype` as in KINDS; constant with `value`; quantized with
    `scale`.
    """

    dtype: str = "f32"
    shape: Sequence[int] = ()
    value: Any = None
    scale: float | Sequence[float] | None = None
    zero: int | Sequence[int] = 0
    axis: int = 0
    variable: bool = False
    signature: Sequence[int] | None = None
    name: str = ""


@dataclass
class Graph:
    """A sub-graph of a test model: tensors, operators (name, options, inputs, outputs), and the
    numbers of tensors that are inputs and outputs. An omitted input is -1.
    """

    tensors: list[Tensor] = field(default_factory=list)
    operators: list[tuple[str, dict[str, Any], list[int], list[int]]] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    name: str = "main"


def model(*graphs: Graph, signatures: Sequence[Mapping[str, Any]] = ()) -> bytes:
    """The file of a model."""
    codes: list[str] = []
    buffers: list[dict[str, Any]] = [{}]
    tables = []
    for graph in graphs:
        tensors = [_tensor(n, t, buffers) for n, t in enumerate(graph.tensors)]
        operators = [_operator(*operator, codes) for operator in graph.operators]
        tables.append(
            {
                "tensors": tensors,
                "inputs": graph.inputs,
                "outputs": graph.outputs,
                "operators": operators,
                "name": graph.name,
            }
        )
    listed = [_code(name) for name in codes]
    return Writer().file(
        {
            "version": 3,
            "operator_codes": listed,
            "subgraphs": tables,
            "buffers": buffers,
            "signature_defs": list(signatures),
        }
    )


def _code(name: str) -> dict[str, Any]:
    if name not in schema().enums["BuiltinOperator"].values():
        return {
            "deprecated_builtin_code": 32,
            "builtin_code": 32,
            "custom_code": name,
            "version": 1,
        }
    code = number("BuiltinOperator", name)
    return {"deprecated_builtin_code": min(code, 127), "builtin_code": code, "version": 1}


def _operator(
    name: str,
    options: Mapping[str, Any],
    inputs: Sequence[int],
    outputs: Sequence[int],
    codes: list[str],
) -> dict[str, Any]:
    if name not in codes:
        codes.append(name)
    made: dict[str, Any] = {
        "opcode_index": codes.index(name),
        "inputs": list(inputs),
        "outputs": list(outputs),
    }
    if options:
        kind = options["table"]
        given = {}
        for key, value in options.items():
            if key == "intermediates":  # a field of the operator
                made[key] = list(value)
            elif key != "table":
                given[key] = value
        made["builtin_options_type"] = number("BuiltinOptions", kind)
        made["builtin_options"] = (kind, given)
    return made


def _tensor(index: int, tensor: Tensor, buffers: list[dict[str, Any]]) -> dict[str, Any]:
    shape = list(tensor.shape) if tensor.value is None else list(np.shape(tensor.value))
    made: dict[str, Any] = {
        "shape": shape,
        "type": number("TensorType", KINDS[tensor.dtype]),
        "buffer": 0,
        "name": tensor.name or f"t{index}",
        "has_rank": True,
    }
    if tensor.value is not None:
        array = np.asarray(tensor.value)
        if tensor.dtype == "i4":  # two in a byte, the first in its lower half
            low, high = array.reshape(-1)[::2] & 15, array.reshape(-1)[1::2] & 15
            array = (low | high << 4).astype(np.uint8)
        made["buffer"] = len(buffers)
        buffers.append({"data": np.ascontiguousarray(array).tobytes()})
    if tensor.signature is not None:
        made["shape_signature"] = list(tensor.signature)
    if tensor.variable:
        made["is_variable"] = True
    if tensor.scale is not None:
        scales = np.atleast_1d(tensor.scale).astype(float).tolist()
        zeros = np.broadcast_to(tensor.zero, (len(scales),)).tolist()
        made["quantization"] = {
            "scale": scales,
            "zero_point": zeros,
            "quantized_dimension": tensor.axis,
        }
    return made
