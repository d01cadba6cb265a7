"""Operators that create tensors, and shape queries: Constant, ConstantOfShape, Range, EyeLike,
Shape, Size (ONNX operator sets 1 to 26).
"""

from __future__ import annotations

import math

import numpy as np

from xlac.frontends.limits import check_size
from xlac.frontends.onnx.file.tensors import Encoded
from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.graph.ragged import count_of
from xlac.frontends.onnx.graph.values import Coded, Value
from xlac.frontends.onnx.registry import operator
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.tensor.dynamic import DimSize
from xlac_sdk.dtypes import DType

_KINDS = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


@operator("Constant")
def constant(call: OperatorCall) -> Value:
    """The value of the one attribute that is set: a tensor, a sparse tensor, or numbers."""
    for name, dtype in _KINDS.items():
        if name in call.attributes:
            return build.constant(np.asarray(call.attr(name), dtype))
    if "sparse_value" in call.attributes:
        return build.constant(call.attr("sparse_value"))
    if "value" not in call.attributes:
        call.fail(
            "its value is text"
            if call.attributes.keys() & {"value_string", "value_strings"}
            else "it has no value"
        )
    return held(call.attr("value"))


def held(array: np.ndarray | Encoded) -> Value:
    """A tensor attribute as a constant."""
    return (
        Coded(build.constant(array.codes), array.format)
        if isinstance(array, Encoded)
        else build.constant(array)
    )


@operator("ConstantOfShape", since=9)
def constant_of_shape(call: OperatorCall) -> Value:
    """One value broadcast to a shape that is known at import."""
    array = call.attr("value", np.zeros(1, np.float32))
    shape = call.dims(0)
    codes = array.codes if isinstance(array, Encoded) else array
    check_size(shape, codes.dtype.itemsize)
    filled = build.broadcast_to(build.constant(codes.reshape(())), shape)
    return Coded(filled, array.format) if isinstance(array, Encoded) else filled


@operator("Range", since=11)
def range_(call: OperatorCall) -> Node:
    """start, start + delta, … below limit; its length must be known at import."""
    dtype = call[0].type.dtype
    start, delta = call.knows(0), call.knows(2)
    if dtype.is_integer and start is not None and delta is not None and delta == 1:
        (limit,) = call.dims(1)
        count: Dim = limit - int(start)
        count = max(0, count) if isinstance(count, int) else count
    else:
        first, last, step = (float(call.value(n).astype(np.float64).reshape(())) for n in range(3))
        if step == 0 or not all(map(math.isfinite, (first, last, step))):
            call.fail(f"a range from {first} to {last} by {step} does not end")
        count = max(0, math.ceil((last - first) / step))
    check_size((count,), dtype.nbytes)
    wide = dtype.compute
    steps = build.iota((count,), 0, wide)
    return build.cast(
        build.add(build.cast(call[0], wide), build.mul(steps, build.cast(call[2], wide))), dtype
    )


@operator("EyeLike", since=9)
def eye_like(call: OperatorCall) -> Node:
    """Ones on diagonal k, in the shape of a matrix."""
    x = call[0]
    if x.type.rank != 2:
        call.fail(f"takes a matrix, got {x.type}")
    dtype = call.dtype("dtype", x.type.dtype)
    row, column = build.iota(x.shape, 0), build.iota(x.shape, 1)
    return build.cast(build.compare(build.sub(column, row), "eq", call.attr("k", 0)), dtype)


@operator("Shape")
def shape(call: OperatorCall) -> Node:
    """The sizes as i64; since operator set 15 only those from `start` to `end`."""
    value, node = call.given(0), _tensor(call)
    chosen = range(node.type.rank)[slice(call.attr("start", 0), call.attr("end", None))]
    if not chosen:
        return build.constant(np.zeros(0, np.int64))
    return build.concat([build.reshape(_extent(value, node, axis), [1]) for axis in chosen])


@operator("Size")
def size(call: OperatorCall) -> Node:
    """The number of elements; a product of sizes where they are symbolic."""
    value, node = call.given(0), _tensor(call)
    count = build.constant(np.asarray(1, np.int64))
    for axis in range(node.type.rank):
        count = build.mul(count, _extent(value, node, axis))
    return count


def _tensor(call: OperatorCall) -> Node:
    """The first input, of any element type."""
    value = call.given(0)
    return call[0] if value is None or not hasattr(value, "node") else value.node


def _extent(value: Value | None, node: Node, axis: int) -> Node:
    count = count_of(value, axis)
    if count is not None:
        return count
    extent = node.shape[axis]
    if isinstance(extent, int):
        return build.constant(np.asarray(extent, np.int64))
    return build.cast(Node.of(DimSize(axis), node), DType.I64)
