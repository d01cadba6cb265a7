"""Two kinds of node that only specs have: a learned tensor by itself, and a tensor written out."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlac.ir.graph import Node
from xlac.spec import arithmetic, schema
from xlac.spec.context import Context, check_size
from xlac.spec.report import Fault, Place, nearest
from xlac.spec.scope import Scope
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin

KEYS = {"weight": ("type",), "constant": ("value", "dtype")}


def literal(context: Context, scope: Scope, name: str, spec: schema.OpNode, path: str, place: Place) -> Node:
    """`{op: weight, type: f32[8, 8]}` or `{op: constant, value: [[1, 2], [3, 4]], dtype: f32}`. Raises Fault."""
    if spec.inputs != []:
        raise Fault("XL2008", f"{name} takes no inputs", place.at("in").span)
    for key in spec.attributes:
        if key not in KEYS[name]:
            raise Fault("XL2005", f"unknown key {key!r} for {name}", place.at(key).key, nearest(key, KEYS[name]))
    needed = KEYS[name][0]
    if needed not in spec.attributes:
        raise Fault("XL2007", f"{name} needs {needed!r}", place.key)
    at = place.at(needed)
    given = arithmetic.value(spec.attributes[needed], scope.constants, at) if name == "constant" else spec.attributes[needed]
    if name == "weight":
        if not isinstance(given, str):
            raise Fault("XL1018", "a type is written f32[64, 64]", at.span)
        type = arithmetic.type_value(given, scope.constants, at)
        check_size(type, at.span)
        return context.weight(scope, path, type, place.key)
    return constant(context, given, spec.attributes.get("dtype"), path, place)


def constant(context: Context, given: Any, dtype: Any, path: str, place: Place) -> Node:
    """A tensor written out; i32, f32 or bool unless told. Raises Fault."""
    from xlac.ops import build

    at = place.at("value")
    try:
        array = np.array([_special(given)] if not isinstance(given, list) else _special(given))
    except (ValueError, OverflowError):
        raise Fault("XL2006", "value is a number, or lists of lists of equal lengths", at.span) from None
    if array.dtype.kind not in "bif":
        raise Fault("XL2006", "value holds numbers only, or true and false only", at.span)
    kind = {"b": DType.BOOL, "i": DType.I32, "f": DType.F32}[array.dtype.kind]
    if dtype is not None:
        kind = arithmetic.dtype_value(str(dtype), place.at("dtype"))
    if kind.is_integer:
        info = np.iinfo(kind.numpy)
        if array.dtype.kind == "f" or (array.size and (array.min() < info.min or array.max() > info.max)):
            raise Fault("XL2006", f"a number of value does not fit {kind}", at.span)
    node = build.constant(array if isinstance(given, list) else array[0], kind)
    context.stamp([node], Origin(path, place.key))
    return node


def _special(value: Any) -> Any:
    """Words for the numbers that YAML writes with a dot."""
    if isinstance(value, list):
        return [_special(item) for item in value]
    return float(value) if value in ("inf", "-inf", "nan") else value
