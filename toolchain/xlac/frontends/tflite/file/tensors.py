"""The tensors of a TensorFlow Lite file: types, quantization, and data, which are views of the
file.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from xlac.frontends.packed import fits, unpacked
from xlac.frontends.tflite.file.flatbuffer import FlatBuffer, FlatBufferTable
from xlac.frontends.tflite.file.schema import schema
from xlac.ir.op import Array, ShapeError
from xlac.ir.types import RANK, Type
from xlac_sdk.dtypes import DType

DTYPES = {
    "FLOAT32": DType.F32, "FLOAT16": DType.F16, "BFLOAT16": DType.BF16, "FLOAT64": DType.F64,
    "INT8": DType.I8, "INT16": DType.I16, "INT32": DType.I32, "INT64": DType.I64,
    "UINT8": DType.U8, "UINT16": DType.U16, "UINT32": DType.U32, "UINT64": DType.U64,
    "BOOL": DType.BOOL, "INT4": DType.I8, "INT2": DType.I8, "UINT4": DType.U8,
}  # fmt: skip
"""The supported element types; narrower ones are unpacked to bytes."""
PACKED = {"INT4": 4, "INT2": 2, "UINT4": 4}  # bits of packed elements
COMPLEX = "COMPLEX64"  # f32 with a last axis of 2: real and imaginary parts


@dataclass(frozen=True, slots=True)
class AffineQuantization:
    """Real value = scale * (integer - zero): one scale and zero point, or one for each entry of
    `axis`.
    """

    scales: Array  # f32[n]
    zeros: Array  # i32[n]
    axis: int

    @property
    def single(self) -> bool:
        """Whether all elements have one scale and zero point."""
        return self.scales.size == 1


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor's description in the file. `dtype` is None for types without numbers (STRING,
    RESOURCE, VARIANT); `kind` is the type's name in the schema. `data` are its bytes if it is
    constant.
    """

    index: int
    name: str
    kind: str
    dtype: DType | None
    shape: tuple[int, ...]
    signature: tuple[int, ...]  # the shape with -1 for open sizes
    quantization: AffineQuantization | None
    data: memoryview | None
    variable: bool
    sparse: FlatBufferTable | None = None

    @property
    def open(self) -> bool:
        """Whether any size is open."""
        return -1 in self.signature


def tensors(table: FlatBufferTable, buffers: list[memoryview | None]) -> list[TensorInfo]:
    """The tensors of a sub-graph. Raises ShapeError or MalformedFlatBuffer."""
    return [_tensor(number, entry, buffers) for number, entry in enumerate(table["tensors"])]


def buffers(file: FlatBuffer, model: FlatBufferTable) -> list[memoryview | None]:
    """The bytes of each buffer of a model; None where it has none. Large files store them after the
    FlatBuffer, at an offset from the file's start.
    """
    views: list[memoryview | None] = []
    for entry in model["buffers"]:
        data = entry.bytes("data")
        if entry["offset"] > 1:
            file.within(entry["offset"], entry["size"])
            data = file.data[entry["offset"] : entry["offset"] + entry["size"]]
        views.append(data if data is not None and len(data) else None)
    return views


def _tensor(number: int, table: FlatBufferTable, buffers: list[memoryview | None]) -> TensorInfo:
    name = table["name"] or f"tensor{number}"
    kind = schema().enums["TensorType"].get(table["type"], str(table["type"]))
    dtype = DType.F32 if kind == COMPLEX else DTYPES.get(kind)
    shape = tuple(table["shape"])
    signature = tuple(table["shape_signature"]) or shape
    if len(signature) != len(shape) or len(shape) > RANK - 1:
        raise ShapeError(
            f"tensor '{name}' has shape {list(shape)[:40]} and signature {list(signature)[:40]}: "
            f"both have one rank, of at most {RANK - 1}"
        )
    if any(size < 0 for size in shape) or any(size < -1 for size in signature):
        raise ShapeError(f"tensor '{name}' of shape {list(signature)} has a size below zero")
    place = table["buffer"]
    if place >= max(1, len(buffers)):
        raise ShapeError(f"tensor '{name}' is in buffer {place}, and there are {len(buffers)}")
    return TensorInfo(
        number,
        name,
        kind,
        dtype,
        shape,
        signature,
        _quantization(name, table["quantization"], shape, dtype),
        buffers[place] if buffers and place else None,
        table["is_variable"],
        table["sparsity"],
    )


def _quantization(
    name: str, table: FlatBufferTable | None, shape: tuple[int, ...], dtype: DType | None
) -> AffineQuantization | None:
    if table is None:
        return None
    details = schema().enums["QuantizationDetails"].get(table["details_type"], "unknown")
    if details != "NONE":
        raise ShapeError(f"tensor '{name}' is quantized by {details}, which is not supported")
    scales = np.asarray(table["scale"], np.float32)
    if not scales.size:
        return None
    zeros = np.asarray(table["zero_point"] or [0] * scales.size, np.int64)
    axis = table["quantized_dimension"]
    if zeros.size != scales.size:
        zeros = np.resize(zeros, scales.size) if zeros.size == 1 else zeros
    fits = scales.size == 1 or (0 <= axis < len(shape) and shape[axis] == scales.size)
    if not fits or zeros.size != scales.size:
        raise ShapeError(
            f"tensor '{name}' of shape {list(shape)} has {scales.size} scales and {zeros.size} "
            f"zero points along axis {axis}"
        )
    if not (np.isfinite(scales).all() and (scales >= 0).all()):
        raise ShapeError(f"tensor '{name}' has a scale that is negative or no finite number")
    range = np.iinfo(dtype.numpy if dtype is not None and dtype.is_integer else np.int32)
    least, most = max(range.min, -1 << 30), min(range.max, 1 << 30)
    if ((zeros < least) | (zeros > most)).any():
        raise ShapeError(f"tensor '{name}' has a zero point beyond its type, {range.dtype}")
    return AffineQuantization(scales, zeros.astype(np.int32), axis)


def elements(info: TensorInfo) -> tuple[Type, Callable[[], Array]]:
    """The type of a constant tensor and how its elements are read: as a view of the file where they
    are whole bytes. Nothing of them is read before. Raises ShapeError.
    """
    assert info.data is not None
    if info.dtype is None:
        raise ShapeError(f"tensor '{info.name}' is of type {info.kind}, which has no numbers")
    if info.sparse is not None:
        raise ShapeError(
            f"tensor '{info.name}' is stored sparsely, which is not supported",
            hint="convert the model without Optimize.EXPERIMENTAL_SPARSITY",
        )
    shape = (*info.shape, 2) if info.kind == COMPLEX else info.shape
    type, count = Type(info.dtype, shape), math.prod(shape)
    bits = PACKED.get(info.kind)
    if bits is not None and not fits(len(info.data), bits, count):
        raise ShapeError(
            f"tensor '{info.name}' holds {len(info.data)} bytes for {count} elements of {bits} bits"
        )
    if bits is None and len(info.data) != type.nbytes:
        raise ShapeError(
            f"tensor '{info.name}' holds {len(info.data)} bytes, and its shape {list(info.shape)} "
            f"of {info.kind} asks for {type.nbytes}"
        )
    return type, partial(_read, info.kind, info.dtype, shape, info.data)


def _read(kind: str, type: DType, shape: tuple[int, ...], data: memoryview) -> Array:
    if kind in PACKED:
        signed = not kind.startswith("U")
        return unpacked(data, PACKED[kind], math.prod(shape), signed).reshape(shape)
    if type is DType.BOOL:
        return np.frombuffer(data, np.uint8).astype(bool).reshape(shape)
    dtype = type.numpy
    little = dtype if dtype.isbuiltin != 1 else dtype.newbyteorder("<")
    return np.frombuffer(data, little).reshape(shape)
