"""Preparation of features (ai.onnx.ml 1 to 5): Scaler, Normalizer, Binarizer, Imputer,
OneHotEncoder, LabelEncoder, …
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.graph.values import Value
from xlac.frontends.onnx.registry import ML, operator
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops import build
from xlac_sdk.dtypes import DType


@operator("Scaler", domain=ML)
def scaler(call: OperatorCall) -> Node:
    """(x - offset) * scale, as f32; offset and scale have one number, or one for each column."""
    x = build.floating(call[0])
    return build.cast(
        build.mul(build.sub(x, _row(call, "offset", x)), _row(call, "scale", x)), DType.F32
    )


def _row(call: OperatorCall, name: str, x: Node) -> Node:
    return build.constant(np.asarray(call.attr(name, [0.0])), x.type.dtype)


@operator("Normalizer", domain=ML)
def normalizer(call: OperatorCall) -> Node:
    """Rows divided by their maximum norm, L1 norm or L2 norm."""
    x = build.floating(call[0])
    size = build.apply1("abs", x)
    last = x.type.rank - 1
    match call.attr("norm", "MAX"):
        case "MAX":
            by = build.reduce(size, "max", last, keepdims=True)
        case "L1":
            by = build.reduce(size, "add", last, keepdims=True)
        case "L2":
            by = build.sqrt(build.reduce(build.mul(x, x), "add", last, keepdims=True))
        case other:
            call.fail(f"norm '{other}' is not MAX, L1 or L2")
    return build.cast(build.div(x, build.maximum(by, 1e-30)), DType.F32)


@operator("Binarizer", domain=ML)
def binarizer(call: OperatorCall) -> Node:
    """1 where x exceeds the threshold, else 0."""
    x = call[0]
    return build.cast(
        build.compare(x, "gt", build.constant(call.attr("threshold", 0.0), x.type.dtype)),
        x.type.dtype,
    )


@operator("Imputer", domain=ML)
def imputer(call: OperatorCall) -> Node:
    """Replaces a marker value (NaN or a number) by one number or one for each feature."""
    x = call[0]
    kind = (
        ("imputed_value_floats", "replaced_value_float")
        if x.type.dtype.is_float
        else ("imputed_value_int64s", "replaced_value_int64")
    )
    values, marked = (
        build.constant(np.asarray(call.attr(kind[0])), x.type.dtype),
        call.attr(kind[1], 0.0 if "float" in kind[1] else 0),
    )
    missing = (
        build.apply1("isnan", x)
        if np.isnan(marked)
        else build.compare(x, "eq", build.constant(marked, x.type.dtype))
    )
    return build.select(missing, build.broadcast_to(values, x.shape), x)


@operator("FeatureVectorizer", domain=ML)
def feature_vectorizer(call: OperatorCall) -> Node:
    """Features concatenated as f32, each truncated or zero-padded to its number of columns."""
    parts = []
    for x, width in zip(call, call.attr("inputdimensions"), strict=True):
        rows = build.cast(build.reshape(x, [-1, 1]) if x.type.rank == 1 else x, DType.F32)
        have = rows.shape[1]
        if not isinstance(have, int):
            call.fail("the number of features must be known")
        parts.append(build.pad(rows, 0, [0, 0], [0, width - have]))
    return build.concat(parts, 1)


@operator("OneHotEncoder", domain=ML)
def one_hot_encoder(call: OperatorCall) -> Node:
    """A new last axis with 1 where the value is that category."""
    x = call[0]
    classes = call.attr("cats_int64s", None)
    if classes is None:
        call.fail("categories that are text are not supported")
    value = build.reshape(x if x.type.dtype.is_float else build.cast(x, DType.I64), [*x.shape, 1])
    return build.cast(
        build.compare(value, "eq", build.constant(np.asarray(classes), value.type.dtype)), DType.F32
    )


@operator("LabelEncoder", since=2, domain=ML)
def label_encoder(call: OperatorCall) -> Value:
    """Maps values by a table of keys; values that are not keys become the default."""
    x = call[0]
    keys, values = _table(call, "keys"), _table(call, "values")
    if keys.shape != values.shape or keys.ndim != 1:
        call.fail(f"{keys.size} keys and {values.size} values do not fit")
    default = np.asarray(_default(call, values)).reshape(-1)
    table = build.constant(np.concatenate([values, default.astype(values.dtype)]))
    held = build.constant(keys, x.type.dtype)
    probe = build.reshape(x, [*x.shape, 1])
    hit = build.compare(probe, "eq", held)
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        both = build.apply1("and", build.apply1("isnan", probe), build.apply1("isnan", held))
        hit = build.apply1("or", hit, both)
    place = build.select(
        hit, build.constant(np.arange(keys.size)), build.constant(np.asarray(keys.size))
    )
    return build.take(table, build.reduce(place, "min", x.type.rank), 0)


def _table(call: OperatorCall, name: str) -> Array:
    for kind, dtype in (("floats", np.float32), ("int64s", np.int64), ("tensor", None)):
        values = call.attr(f"{name}_{kind}", None)
        if values is not None:
            return np.asarray(values, dtype)
    call.fail(f"{name} that are text are not supported")


def _default(call: OperatorCall, values: Array) -> Any:
    if "default_tensor" in call.attributes:
        return call.attr("default_tensor")
    return (
        call.attr("default_float", -0.0)
        if values.dtype.kind == "f"
        else call.attr("default_int64", -1)
    )
