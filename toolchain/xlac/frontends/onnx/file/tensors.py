"""ONNX's tensors as arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlac.frontends.limits import check_size
from xlac.frontends.onnx.file.dtypes import CODED, DTYPES, LISTED, NAMES
from xlac.frontends.onnx.file.files import Files
from xlac.frontends.onnx.file.messages import messages
from xlac.frontends.packed import fits, unpacked
from xlac.ir.op import Array, ShapeError

PACKED = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2}
"""Types with several elements in a byte, with their widths in bits."""

FILLED = 1 << 30  # the most bytes that a sparse tensor may take once it is dense


@dataclass(frozen=True, slots=True)
class Encoded:
    """A tensor whose elements are stored as codes of a format."""

    codes: Array
    format: str


def array_of(tensor: Any, files: Files) -> Array | Encoded:
    """The numbers of a TensorProto, without a copy where they are in a file. Raises ShapeError."""
    try:
        return _array(tensor, files)
    except ShapeError as error:
        raise ShapeError(f"tensor '{tensor.name}': {error}", hint=error.hint) from None
    except (ValueError, TypeError) as error:
        raise ShapeError(f"tensor '{tensor.name}' is malformed: {error}") from None


def _array(tensor: Any, files: Files) -> Array | Encoded:
    number, shape = tensor.data_type, tuple(tensor.dims)
    if number in NAMES or number not in DTYPES | CODED:
        raise ShapeError(f"its element type is {type_name(number)}")
    check_size(shape, 1)
    codes = CODED.get(number)
    dtype = (codes[1] if codes else DTYPES[number]).numpy
    count = math.prod(shape)
    if tensor.data_location == 1 or tensor.HasField("raw_data"):
        raw = files.external(tensor) if tensor.data_location == 1 else memoryview(tensor.raw_data)
        elements = (
            _unpacked(raw, number, count)
            if number in PACKED
            else np.frombuffer(raw, _little(dtype))
        )
    else:
        elements = _listed(tensor, dtype)
    if elements.size != count:
        raise ShapeError(
            f"it holds {elements.size} elements, and its shape {list(shape)} asks for {count}"
        )
    elements = elements.reshape(shape)
    return Encoded(elements, codes[0]) if codes else elements


def _listed(tensor: Any, dtype: np.dtype[Any]) -> Array:
    """The elements of a typed field; 16-bit floats come as integers that hold their bits, complex
    numbers as pairs.
    """
    field = LISTED.get(tensor.data_type, "int32_data")
    listed = np.asarray(getattr(tensor, field))
    if tensor.data_type in PACKED:
        return _unpacked(
            memoryview(listed.astype(np.uint8).tobytes()), tensor.data_type, math.prod(tensor.dims)
        )
    if field == "int32_data" and (dtype.kind == "f" or dtype.name == "bfloat16"):
        return listed.astype(np.uint16).view(dtype)
    return listed.astype(dtype)


def _little(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in little-endian order, in which ONNX files store data on every machine."""
    return dtype if dtype.isbuiltin != 1 else dtype.newbyteorder("<")


def _unpacked(raw: memoryview, number: int, count: int) -> Array:
    """Elements of a type with several in a byte, as one code in each byte."""
    bits = PACKED[number]
    if not fits(len(raw), bits, count):
        raise ShapeError(f"it holds {len(raw)} bytes for {count} elements of {bits} bits")
    return unpacked(raw, bits, count, CODED[number][1].is_signed)


def dense(sparse: Any, files: Files) -> Array:
    """A SparseTensorProto as a dense array. Raises ShapeError."""
    values, indices = array_of(sparse.values, files), array_of(sparse.indices, files)
    shape = tuple(sparse.dims)
    if (
        isinstance(values, Encoded)
        or isinstance(indices, Encoded)
        or values.ndim != 1
        or indices.dtype != np.int64
    ):
        raise ShapeError(
            f"sparse tensor '{sparse.values.name}' is not a list of values with i64 positions"
        )
    check_size(shape, values.dtype.itemsize, FILLED)
    array = np.zeros(shape, values.dtype)
    if indices.ndim == 2 and indices.shape == (values.size, len(shape)):
        bounds = np.asarray(shape)
        inside = ((indices >= 0) & (indices < bounds)).all()
        places = (
            np.ravel_multi_index(tuple(indices.T), shape)
            if inside and values.size
            else np.zeros(0, np.int64)
        )
    elif indices.shape == (values.size,):
        inside = ((indices >= 0) & (indices < array.size)).all()
        places = indices
    else:
        raise ShapeError(
            f"sparse tensor '{sparse.values.name}' has positions of shape {list(indices.shape)} "
            f"for {values.size} values"
        )
    if not inside:
        raise ShapeError(
            f"sparse tensor '{sparse.values.name}' has a position outside its shape {list(shape)}"
        )
    array.reshape(-1)[places] = values
    return array


def type_name(number: int) -> str:
    """What ONNX calls an element type, by its number in files."""
    known = messages().TensorProto.DataType
    return NAMES.get(number) or (
        known.Name(number).lower() if number in known.values() else str(number)
    )
