"""ONNX's tensors as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xlac.frontends.onnx.dtypes import CODED, DTYPES, NAMES
from xlac.ir.op import Array, ShapeError


@dataclass(frozen=True, slots=True)
class Encoded:
    """The codes of a tensor whose element type we hold as codes."""

    codes: Array
    format: str


def array_of(tensor: Any, folder: Path | None) -> Array | Encoded:
    """The numbers of a TensorProto. Raises ShapeError for a type that has none."""
    from onnx import numpy_helper

    if tensor.data_type in NAMES or tensor.data_type not in DTYPES | CODED:
        raise ShapeError(f"tensor '{tensor.name}' has element type {type_name(tensor.data_type)}")
    found = numpy_helper.to_array(tensor, str(folder) if folder else "")
    if tensor.data_type in CODED:
        format, dtype = CODED[tensor.data_type]
        whole = "float" not in format
        return Encoded(found.astype(dtype.numpy) if whole else found.view(dtype.numpy), format)
    return np.asarray(found)


def type_name(number: int) -> str:
    from onnx import TensorProto

    return NAMES.get(number) or (
        TensorProto.DataType.Name(number).lower() if number in TensorProto.DataType.values() else str(number)
    )
