"""Attributes of ONNX nodes as Python values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xlac.frontends.onnx.file.files import Files
from xlac.frontends.onnx.file.messages import messages
from xlac.frontends.onnx.file.tensors import array_of, dense
from xlac.ir.op import ShapeError


def read(node: Any, files: Files) -> dict[str, Any]:
    """The attributes of a node by name: int, float, str, list of these, array (a tensor), or
    GraphProto (a body).
    """
    return {a.name: _value(a, files) for a in node.attribute}


def _value(attribute: Any, files: Files) -> Any:
    A = messages().AttributeProto
    match attribute.type:
        case A.FLOAT:
            return attribute.f
        case A.INT:
            return attribute.i
        case A.STRING:
            return _text(attribute.s)
        case A.TENSOR:
            return array_of(attribute.t, files)
        case A.SPARSE_TENSOR:
            return dense(attribute.sparse_tensor, files)
        case A.GRAPH:
            return attribute.g
        case A.FLOATS:
            return list(attribute.floats)
        case A.INTS:
            return list(attribute.ints)
        case A.STRINGS:
            return [_text(s) for s in attribute.strings]
        case A.TENSORS:
            return [array_of(t, files) for t in attribute.tensors]
        case A.GRAPHS:
            return list(attribute.graphs)
        case A.TYPE_PROTO:
            return attribute.tp
    raise ShapeError(
        f"attribute '{attribute.name}' has a kind that is not supported", attribute=attribute.name
    )


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise ShapeError("a text attribute is not UTF-8") from None


def bound(inner: Any, given: Mapping[str, Any]) -> Any:
    """A node of a function's body, with references to attributes of the function replaced by those
    of the call.
    """
    if not any(a.ref_attr_name for a in inner.attribute):
        return inner
    copy = type(inner)()
    copy.CopyFrom(inner)
    del copy.attribute[:]
    for attribute in inner.attribute:
        if not attribute.ref_attr_name:
            copy.attribute.append(attribute)
        elif attribute.ref_attr_name in given:
            taken = copy.attribute.add()
            taken.CopyFrom(given[attribute.ref_attr_name])
            taken.name = attribute.name
    return copy
