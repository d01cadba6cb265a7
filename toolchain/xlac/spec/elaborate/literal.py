"""Nodes that only specs have: a learned tensor, and a constant."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlac.ir.dims import static
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.spec.elaborate import arithmetic, type_text
from xlac.spec.elaborate.context import Elaboration, check_size
from xlac.spec.elaborate.scope import Scope
from xlac.spec.report import Fault, Place, nearest
from xlac.spec.schema import schema
from xlac.spec.text.floats import check_room
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin

MAX_FILLED = 2**30  # bytes of a constant filled with one number
KEYS = {"weight": ("type",), "constant": ("value", "dtype", "type", "bits")}


def literal(
    context: Elaboration, scope: Scope, name: str, spec: schema.OpNode, path: str, place: Place
) -> Node:
    """`{op: weight, type: f32[8, 8]}` or `{op: constant, value: [[1, 2], [3, 4]], dtype: f32}`.
    Raises Fault or Poisoned.

    The weights file has it under the path of the node; a learned tensor under the name in `from`,
    if given.
    """
    if spec.inputs != []:
        raise Fault("XL2008", f"{name} takes no inputs", place.at("in").span)
    for key in spec.attributes:
        if key not in KEYS[name]:
            raise Fault(
                "XL2005",
                f"unknown key {key!r} for {name}",
                place.at(key).key,
                nearest(key, KEYS[name]),
            )
    given = {
        key: arithmetic.value(v, scope.constants, place.at(key))
        for key, v in spec.attributes.items()
        if key != "type"
    }
    type = (
        declared(spec.attributes["type"], scope, place.at("type"))
        if "type" in spec.attributes
        else None
    )
    if name == "weight":
        if type is None:
            raise Fault("XL2007", "weight needs 'type'", place.key)
        return context.weight(
            scope, spec.origin if isinstance(spec.origin, str) else path, type, place.key
        )
    from xlac.ops.tensor.leaf import Const

    array = constant(context, given, type, path, place)
    array.flags.writeable = False  # avoids a copy in Const
    node = Node.of(Const(array))
    context.stamp([node], Origin(path, place.key))
    return node


def declared(text: Any, scope: Scope, at: Place) -> Type:
    """The declared type of a literal. Raises Fault."""
    if not isinstance(text, str):
        raise Fault("XL1018", "a type is written f32[64, 64]", at.span)
    type = type_text.type_value(text, scope.constants, at)
    check_size(type, at.span)
    return type


def constant(
    context: Elaboration, given: dict[str, Any], type: Type | None, path: str, place: Place
) -> Array:
    """The array of a constant: from numbers or bits in the spec, or from the weights file. Raises
    Fault or Poisoned.
    """
    if type is None:
        if "value" not in given:
            raise Fault(
                "XL2007",
                "constant needs 'value', or 'type' and a tensor of the weights file",
                place.key,
            )
        return written(given["value"], given.get("dtype"), place)
    at = place.at("type")
    if "dtype" in given:
        raise Fault("XL2006", "give a constant either type or dtype", place.at("dtype").key)
    if not all(isinstance(size, int) for size in type.shape):
        raise Fault("XL2006", f"a constant has sizes known now, and this is {type}", at.span)
    if "bits" in given:
        return bits(given["bits"], type, place.at("bits"))
    if "value" not in given:
        return context.stored.constant(path, type, at.span)
    array = written(given["value"], type.dtype, place)
    shape = static(type.shape)
    if array.shape == () and type.nbytes > MAX_FILLED:
        raise Fault(
            "XL4019",
            f"{type} has more than {MAX_FILLED:,} bytes to fill",
            at.span,
            "full(shape, value) holds one number",
        )
    if array.shape == () or array.size == type.size == 0:
        return np.full(shape, array) if array.shape == () else array.reshape(shape)
    if array.shape != shape:
        raise Fault(
            "XL2013",
            f"declared {type}, and value has the shape {list(array.shape)}",
            place.at("value").span,
        )
    return array


def written(given: Any, dtype: Any, place: Place) -> Array:
    """An array of numbers; i32, f32 or bool unless the spec names a type. Raises Fault."""
    at = place.at("value")
    try:
        array = np.array([_special(given)] if not isinstance(given, list) else _special(given))
    except (ValueError, OverflowError):
        raise Fault(
            "XL2006", "value is a number, or lists of lists of equal lengths", at.span
        ) from None
    if array.dtype.kind not in "biuf":
        raise Fault("XL2006", "value holds numbers only, or true and false only", at.span)
    kind = {"b": DType.BOOL, "i": DType.I32, "u": DType.I32, "f": DType.F32}[array.dtype.kind]
    if dtype is not None:
        kind = (
            dtype
            if isinstance(dtype, DType)
            else type_text.dtype_value(str(dtype), place.at("dtype"))
        )
    if kind.is_integer and array.dtype.kind == "f":
        array = _whole(given, array)
    if kind.is_integer and array.size:
        info = np.iinfo(kind.numpy)
        if array.dtype.kind == "f" or array.min() < info.min or array.max() > info.max:
            raise Fault("XL2006", f"a number of value does not fit {kind}", at.span)
    if kind.is_float and array.size:
        with np.errstate(over="ignore"):
            most = np.abs(array[np.isfinite(array)].astype(np.float64)).max(initial=0)
        check_room(float(most), kind, at.span)
    with np.errstate(all="ignore"):
        elements: Array = array.astype(kind.compute.numpy).astype(kind.numpy)
    return elements if isinstance(given, list) else elements.reshape(())


def _whole(given: Any, array: Array) -> Array:
    """Integers that NumPy converted to floats because some are above and some below 2**63."""
    exact = np.array(given, dtype=object)
    return (
        exact.astype(np.uint64)
        if array.size and all(type(v) is int and 0 <= v < 2**64 for v in exact.flat)
        else array
    )


def bits(given: Any, type: Type, at: Place) -> Array:
    """An array given by the bits of its elements, for values that numbers cannot express, such as
    the payload of a NaN. Raises Fault.
    """
    if type.dtype is DType.BOOL:
        raise Fault("XL2006", "bits are those of numbers, and this is bool", at.span)
    unsigned = np.dtype(f"u{type.dtype.nbytes}")
    try:
        array = (
            np.array(given, dtype=object).astype(unsigned)
            if type.size
            else np.empty(static(type.shape), unsigned)
        )
    except (ValueError, TypeError, OverflowError):
        raise Fault(
            "XL2006", f"bits are whole numbers of {type.dtype.bits} bits", at.span
        ) from None
    if array.shape != type.shape:
        raise Fault(
            "XL2013", f"declared {type}, and bits has the shape {list(array.shape)}", at.span
        )
    return array.view(type.dtype.numpy)


def _special(value: Any) -> Any:
    """YAML's special floats (.inf, .nan) as numbers."""
    if isinstance(value, list):
        return [_special(item) for item in value]
    return float(value) if value in ("inf", "-inf", "nan") else value
