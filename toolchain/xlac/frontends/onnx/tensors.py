"""ONNX's tensors as arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from xlac.frontends.onnx.dtypes import CODED, DTYPES, NAMES
from xlac.frontends.onnx.values import Coded, Value
from xlac.ir.op import Array, ShapeError
from xlac.ops import build


def array_of(tensor: Any, folder: Path | None) -> Array:
    """The numbers of a TensorProto; those of a coded type as codes. Raises ShapeError for a type that has none."""
    from onnx import numpy_helper

    if tensor.data_type in NAMES or tensor.data_type not in DTYPES | CODED:
        raise ShapeError(f"tensor '{tensor.name}' has element type {type_name(tensor.data_type)}")
    found = numpy_helper.to_array(tensor, str(folder) if folder else "")
    if tensor.data_type in CODED:
        dtype = CODED[tensor.data_type][1].numpy
        whole = tensor.data_type in (21, 22, 25, 26)
        return found.astype(dtype) if whole else found.view(dtype)
    return np.asarray(found)


def constant_of(tensor: Any, folder: Path | None) -> Value:
    """A TensorProto as a constant."""
    node = build.constant(array_of(tensor, folder))
    coded = CODED.get(tensor.data_type)
    return Coded(node, coded[0]) if coded else node


def type_name(number: int) -> str:
    from onnx import TensorProto

    return NAMES.get(number) or (
        TensorProto.DataType.Name(number).lower() if number in TensorProto.DataType.values() else str(number)
    )
